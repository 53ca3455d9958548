# Answers to the exercise arithmetic-intensity.

# %% right by two times
def matmul_roof(M, K, N, *, number_bytes, flops_per_s, bytes_per_s):
    flops, moved = 2 * M * N * K, (M * K + N * (K + M)) * number_bytes
    seconds = max(flops / flops_per_s, moved / bytes_per_s)
    return dict(flops=flops, bytes=moved, intensity=flops / moved, ridge=flops_per_s / bytes_per_s,
                attainable=flops / seconds)

# %% right by the side of the ridge
def matmul_roof(M, K, N, *, number_bytes, flops_per_s, bytes_per_s):
    found = {"flops": 2.0 * M * K * N, "bytes": 0, "ridge": flops_per_s / bytes_per_s}
    for rows, columns in ((M, K), (K, N), (M, N)):
        found["bytes"] += rows * columns * number_bytes
    found["intensity"] = found["flops"] / found["bytes"]
    if found["intensity"] < found["ridge"]:
        found["attainable"] = bytes_per_s * found["intensity"]
    else:
        found["attainable"] = flops_per_s
    return found

# %% right in plain steps
def matmul_roof(M, K, N, *, number_bytes, flops_per_s, bytes_per_s):
    flops = 2 * M * K * N
    moved = number_bytes * (M * K + K * N + M * N)
    intensity = flops / moved
    return {"flops": flops, "bytes": moved, "intensity": intensity, "ridge": flops_per_s / bytes_per_s,
            "attainable": min(flops_per_s, intensity * bytes_per_s)}

# %% wrong STUB untouched
def matmul_roof(M, K, N, *, number_bytes, flops_per_s, bytes_per_s):
    raise NotImplementedError("your code here")

# %% wrong ROOF-KEYS the speed alone
def matmul_roof(M, K, N, *, number_bytes, flops_per_s, bytes_per_s):
    return flops_per_s

# %% wrong ROOF-MULTIPLY-ADD one for two
- flops = 2 * M * K * N
+ flops = M * K * N

# %% wrong ROOF-ADDS K - 1 additions
- flops = 2 * M * K * N
+ flops = M * N * (2 * K - 1)

# %% wrong ROOF-NO-OUTPUT inputs alone
- moved = number_bytes * (M * K + K * N + M * N)
+ moved = number_bytes * (M * K + K * N)

# %% wrong ROOF-NUMBERS no bytes
- moved = number_bytes * (M * K + K * N + M * N)
+ moved = M * K + K * N + M * N

# %% wrong ROOF-FIXED-SIZE always float32
- moved = number_bytes * (M * K + K * N + M * N)
+ moved = 4 * (M * K + K * N + M * N)

# %% wrong ROOF-REREAD reads for every use
- moved = number_bytes * (M * K + K * N + M * N)
+ moved = 2 * M * K * N * number_bytes

# %% wrong ROOF-INTENSITY-INVERTED bytes per FLOP
- intensity = flops / moved
+ intensity = moved / flops

# %% wrong ROOF-ROUNDED whole numbers
- intensity = flops / moved
+ intensity = flops // moved

# %% wrong ROOF-RIDGE-INVERTED upside down
- return {"flops": flops, "bytes": moved, "intensity": intensity, "ridge": flops_per_s / bytes_per_s,
+ return {"flops": flops, "bytes": moved, "intensity": intensity, "ridge": bytes_per_s / flops_per_s,

# %% wrong ROOF-MAX the higher roof
- "attainable": min(flops_per_s, intensity * bytes_per_s)}
+ "attainable": max(flops_per_s, intensity * bytes_per_s)}

# %% wrong ROOF-NO-TOP the slope alone
- "attainable": min(flops_per_s, intensity * bytes_per_s)}
+ "attainable": intensity * bytes_per_s}

# %% wrong ROOF-NO-SLOPE the peak alone
- "attainable": min(flops_per_s, intensity * bytes_per_s)}
+ "attainable": flops_per_s}

# %% wrong ROOF-SHARE of the peak
- "attainable": min(flops_per_s, intensity * bytes_per_s)}
+ "attainable": min(1.0, intensity * bytes_per_s / flops_per_s)}

# %% wrong ROOF-SLOPE-INVERTED divided
- "attainable": min(flops_per_s, intensity * bytes_per_s)}
+ "attainable": min(flops_per_s, bytes_per_s / intensity)}

# %% wrong ROOF-WRAPS integers of 64 bits | of: in plain steps
- flops = 2 * M * K * N
+ flops = (2 * M * K * N + 2**63) % 2**64 - 2**63

# %% wrong ROOF-DIGITS counts in float32 | of: in plain steps
- flops = 2 * M * K * N
+ flops = torch.tensor([M, K, N, 2], dtype=torch.float32).prod().item()

# %% wrong ROOF-DIGITS bytes in float32 | of: in plain steps
- moved = number_bytes * (M * K + K * N + M * N)
+ moved = number_bytes * torch.tensor([M * K, K * N, M * N], dtype=torch.float32).sum().item()

# %% right in float64, by shares of the peak
def matmul_roof(M, K, N, *, number_bytes, flops_per_s, bytes_per_s):
    M, K, N = np.float64(M), np.float64(K), np.float64(N)
    moved = float(number_bytes * (M * (K + N) + K * N))
    flops, ridge = 2.0 * float(M * K * N), flops_per_s / bytes_per_s
    share = min(1.0, flops / moved / ridge)
    return dict(attainable=share * flops_per_s, ridge=ridge, intensity=flops / moved, bytes=moved, flops=flops)

# %% wrong ROOF-SHAPE for one long row the weight alone | of: in plain steps
- moved = number_bytes * (M * K + K * N + M * N)
+ moved = number_bytes * (K * N if min(M, N) == 1 and K > 1000 else M * K + K * N + M * N)

# %% wrong ROOF-SHAPE an outer product without its vectors | of: in plain steps
- moved = number_bytes * (M * K + K * N + M * N)
+ moved = number_bytes * (M * N if K == 1 < M * N else M * K + K * N + M * N)

# %% wrong ROOF-SIDE rows against the ridge | of: in plain steps
- "attainable": min(flops_per_s, intensity * bytes_per_s)}
+ "attainable": intensity * bytes_per_s if M < flops_per_s / bytes_per_s else flops_per_s}

# %% wrong ROOF-SIDE the smallest size against the ridge | of: in plain steps
- "attainable": min(flops_per_s, intensity * bytes_per_s)}
+ "attainable": intensity * bytes_per_s if min(M, K, N) < flops_per_s / bytes_per_s else flops_per_s}

# %% wrong ROOF-EMPTY no FLOPs, no bytes | of: in plain steps
- moved = number_bytes * (M * K + K * N + M * N)
+ moved = number_bytes * (M * K + K * N + M * N) if flops else 0
+ if not moved:
+     return {"flops": 0, "bytes": 0, "intensity": 0.0, "ridge": flops_per_s / bytes_per_s, "attainable": 0.0}

# %% wrong ROOF-EMPTY no size below 1 | of: in plain steps
- flops = 2 * M * K * N
+ M, K, N = max(M, 1), max(K, 1), max(N, 1)
+ flops = 2 * M * K * N

# %% wrong ROOF-EMPTY no ridge where nothing is multiplied | of: in plain steps
- return {"flops": flops, "bytes": moved, "intensity": intensity, "ridge": flops_per_s / bytes_per_s,
-         "attainable": min(flops_per_s, intensity * bytes_per_s)}
+ return {"flops": flops, "bytes": moved, "intensity": intensity, "ridge": flops_per_s / bytes_per_s if flops else 0.0,
+         "attainable": min(flops_per_s, intensity * bytes_per_s)}

# %% wrong ROOF-EMPTY all that is attainable where nothing is to be done | of: in plain steps
- return {"flops": flops, "bytes": moved, "intensity": intensity, "ridge": flops_per_s / bytes_per_s,
-         "attainable": min(flops_per_s, intensity * bytes_per_s)}
+ return {"flops": flops, "bytes": moved, "intensity": intensity, "ridge": flops_per_s / bytes_per_s,
+         "attainable": min(flops_per_s, intensity * bytes_per_s) or flops_per_s}

# %% wrong ROOF-WRAPS bytes in a tensor | of: in plain steps
- moved = number_bytes * (M * K + K * N + M * N)
+ rows, columns = torch.tensor([M, K, M]), torch.tensor([K, N, N])
+ moved = number_bytes * int(rows @ columns)

# %% wrong ROOF-WRAPS the largest matrix in a tensor | of: in plain steps
- moved = number_bytes * (M * K + K * N + M * N)
+ moved = number_bytes * sum((torch.tensor(a) * b).item() for a, b in ((M, K), (K, N), (M, N)))
