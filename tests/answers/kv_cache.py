# Answers to the exercise kv-cache.

# %% right as the library has it
class KVCache:
    def __init__(self, config, batch_size, *, room=None, dtype=torch.float32, device=None):
        K = config.head_dim
        shape = (batch_size, config.d_kv // K, room or config.max_seq_len, K)
        self.k_BGMK = torch.empty(shape, dtype=dtype, device=device)
        self.v_BGMK = torch.empty(shape, dtype=dtype, device=device)
        self.length = 0

    def attend(self, q_BHTK, k_BGTK, v_BGTK, cos_MK, sin_MK):
        start, end = self.length, self.length + q_BHTK.shape[2]
        if end > self.k_BGMK.shape[2]:
            raise ValueError(f"room for {self.k_BGMK.shape[2]} tokens, got {end}")
        q, k = apply_rotary_pos_emb(q_BHTK, k_BGTK, cos_MK[start:end], sin_MK[start:end])
        self.k_BGMK[:, :, start:end] = k
        self.v_BGMK[:, :, start:end] = v_BGTK
        self.length = end
        open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
        kept_k, kept_v = self.k_BGMK[:, :, :end], self.v_BGMK[:, :, :end]
        shared = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)

# %% right scores written out, positions compared, heads copied
class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        T, H, G = q.shape[2], q.shape[1], k.shape[1]
        at = torch.arange(self.length, self.length + T)
        if at[-1] >= self.k_BGMK.size(2):
            raise ValueError("full")
        q, k = apply_rotary_pos_emb(q, k, cos[at], sin[at])
        self.k_BGMK.index_copy_(2, at, k)
        self.v_BGMK.index_copy_(2, at, v)
        self.length += T
        keys = self.k_BGMK[:, :, : self.length].repeat_interleave(H // G, 1)
        values = self.v_BGMK[:, :, : self.length].repeat_interleave(H // G, 1)
        scores = (q.float() @ keys.float().mT) / math.sqrt(q.shape[-1])
        later = torch.arange(self.length)[None] > at[:, None]
        weights = scores.masked_fill(later, -math.inf).softmax(-1)
        return (weights @ values.float()).to(q.dtype)

# %% right one new token at a time, without a mask
class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        T = q.shape[2]
        if self.length + T > self.k_BGMK.shape[2]:
            raise ValueError("no room")
        outs = []
        for t in range(T):
            n = self.length
            one = slice(t, t + 1)
            turned_q, turned_k = apply_rotary_pos_emb(q[:, :, one], k[:, :, one], cos[n], sin[n])
            self.k_BGMK[:, :, n] = turned_k[:, :, 0]
            self.v_BGMK[:, :, n] = v[:, :, t]
            self.length = n + 1
            outs.append(
                F.scaled_dot_product_attention(
                    turned_q, self.k_BGMK[:, :, : n + 1], self.v_BGMK[:, :, : n + 1], enable_gqa=True
                )
            )
        return torch.cat(outs, dim=2)

# %% right torch's own lower-right mask, narrow and copy_
class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        from torch.nn.attention.bias import causal_lower_right

        T, M = q.shape[2], self.k_BGMK.shape[2]
        if T > M - self.length:
            raise ValueError(f"{T} tokens, but only {M - self.length} places are left")
        rows = range(self.length, self.length + T)
        q, k = apply_rotary_pos_emb(q, k, cos[rows.start : rows.stop], sin[rows.start : rows.stop])
        for room, new in ((self.k_BGMK, k), (self.v_BGMK, v)):
            room.narrow(2, rows.start, T).copy_(new)
        self.length = rows.stop
        n = q.shape[1] // k.shape[1]
        keys, values = (x[:, :, : rows.stop].repeat_interleave(n, 1) for x in (self.k_BGMK, self.v_BGMK))
        bias = causal_lower_right(T, rows.stop)._materialize(q.device)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=bias)

# %% right queries folded into groups, an additive mask in float64
class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        B, H, T, K = q.shape
        G = k.shape[1]
        old, self_room = self.length, self.k_BGMK.shape[2]
        new = old + T
        if new > self_room:
            raise ValueError
        q, k = apply_rotary_pos_emb(q, k, cos[old:new].to(q.device), sin[old:new])
        self.k_BGMK[:, :, old:new], self.v_BGMK[:, :, old:new], self.length = k, v, new
        q = q.reshape(B, G, H // G, T, K).double()
        keys = self.k_BGMK[:, :, None, :new].double()
        scores = q @ keys.transpose(-1, -2) * K**-0.5
        scores = scores + torch.full((T, new), -math.inf).triu(old + 1)
        out = scores.softmax(-1) @ self.v_BGMK[:, :, None, :new].double()
        return out.reshape(B, H, T, K).type(self.k_BGMK.dtype)

# %% wrong STUB untouched
class KVCache(KVCache):
    def attend(self, q_BHTK, k_BGTK, v_BGTK, cos_MK, sin_MK):
        raise NotImplementedError("your code here")

# %% wrong NONE no return | of: as the library has it
- return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)

# %% wrong CACHE-POSITION the first rows of the tables | of: as the library has it
- q, k = apply_rotary_pos_emb(q_BHTK, k_BGTK, cos_MK[start:end], sin_MK[start:end])
+ T = end - start
+ q, k = apply_rotary_pos_emb(q_BHTK, k_BGTK, cos_MK[:T], sin_MK[:T])

# %% wrong CACHE-UNTURNED no rotation at all | of: as the library has it
- q, k = apply_rotary_pos_emb(q_BHTK, k_BGTK, cos_MK[start:end], sin_MK[start:end])
+ q, k = q_BHTK, k_BGTK

# %% wrong CACHE-UNTURNED the keys as they came in are kept | of: as the library has it
- self.k_BGMK[:, :, start:end] = k
+ self.k_BGMK[:, :, start:end] = k_BGTK

# %% wrong CACHE-UNTURNED all keys turned at every call | of: as the library has it
- q, k = apply_rotary_pos_emb(q_BHTK, k_BGTK, cos_MK[start:end], sin_MK[start:end])
- self.k_BGMK[:, :, start:end] = k
+ q, k = apply_rotary_pos_emb(q_BHTK, k_BGTK, cos_MK[start:end], sin_MK[start:end])
+ self.k_BGMK[:, :, start:end] = k_BGTK

- kept_k, kept_v = self.k_BGMK[:, :, :end], self.v_BGMK[:, :, :end]
+ kept_k, kept_v = self.k_BGMK[:, :, :end], self.v_BGMK[:, :, :end]
+ _, kept_k = apply_rotary_pos_emb(kept_k, kept_k, cos_MK[:end], sin_MK[:end])

# %% wrong CACHE-VALUES values turned too | of: as the library has it
- self.v_BGMK[:, :, start:end] = v_BGTK
+ _, v = apply_rotary_pos_emb(q_BHTK, v_BGTK, cos_MK[start:end], sin_MK[start:end])
+ self.v_BGMK[:, :, start:end] = v

# %% wrong CACHE-TOP-LEFT is_causal | of: as the library has it
- return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ return F.scaled_dot_product_attention(q, kept_k, kept_v, is_causal=True, enable_gqa=shared)

# %% wrong CACHE-TOP-LEFT a triangle from the corner | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
+ open_TM = torch.ones(end - start, end, dtype=torch.bool).tril()

# %% wrong CACHE-FUTURE no mask | of: as the library has it
- return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ return F.scaled_dot_product_attention(q, kept_k, kept_v, enable_gqa=shared)

# %% wrong CACHE-FUTURE causal for the first piece alone | of: as the library has it
- return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ return F.scaled_dot_product_attention(q, kept_k, kept_v, is_causal=start == 0, enable_gqa=shared)

# %% wrong CACHE-SELF a diagonal too far to the left | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
+ open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(max(start - 1, 0))
+ open_TM[0, 0] = True

# %% wrong CACHE-FORGETS attends to what came in | of: as the library has it
- return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ return F.scaled_dot_product_attention(q, k, v_BGTK, is_causal=True, enable_gqa=shared)

# %% wrong CACHE-LENGTH length is never moved | of: as the library has it
- self.length = end

# %% wrong CACHE-LENGTH one more, however many came | of: as the library has it
- self.length = end
+ self.length += 1

# %% wrong CACHE-ELSEWHERE grows a tensor of its own
class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        start, end = self.length, self.length + q.shape[2]
        if end > self.k_BGMK.shape[2]:
            raise ValueError("full")
        q, k = apply_rotary_pos_emb(q, k, cos[start:end], sin[start:end])
        if start:
            k, v = torch.cat((self.k, k), dim=2), torch.cat((self.v, v), dim=2)
        self.k, self.v, self.length = k, v, end
        mask = torch.ones(end - start, end, dtype=torch.bool).tril(start)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

# %% wrong SHAPE the room cut to what is kept
class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        start, end = self.length, self.length + q.shape[2]
        q, k = apply_rotary_pos_emb(q, k, cos[start:end], sin[start:end])
        self.k_BGMK = torch.cat((self.k_BGMK[:, :, :start], k), dim=2)
        self.v_BGMK = torch.cat((self.v_BGMK[:, :, :start], v), dim=2)
        self.length = end
        mask = torch.ones(end - start, end, dtype=torch.bool).tril(start)
        return F.scaled_dot_product_attention(q, self.k_BGMK, self.v_BGMK, attn_mask=mask, enable_gqa=True)

# %% wrong CACHE-COPIES a new room for every call | of: as the library has it
- self.k_BGMK[:, :, start:end] = k
- self.v_BGMK[:, :, start:end] = v_BGTK
+ self.k_BGMK, self.v_BGMK = (
+     torch.cat((room[:, :, :start], new, room[:, :, end:]), dim=2)
+     for room, new in ((self.k_BGMK, k), (self.v_BGMK, v_BGTK))
+ )

# %% wrong CACHE-ROOM the whole room, masked | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
- kept_k, kept_v = self.k_BGMK[:, :, :end], self.v_BGMK[:, :, :end]
+ open_TM = torch.ones(end - start, self.k_BGMK.shape[2], dtype=torch.bool).tril(start)
+ kept_k, kept_v = self.k_BGMK, self.v_BGMK

# %% wrong CACHE-WORK the whole room, masked, NaN taken out | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
- kept_k, kept_v = self.k_BGMK[:, :, :end], self.v_BGMK[:, :, :end]
+ open_TM = torch.ones(end - start, self.k_BGMK.shape[2], dtype=torch.bool).tril(start)
+ kept_k, kept_v = self.k_BGMK.nan_to_num(), self.v_BGMK.nan_to_num()

# %% wrong CACHE-RECOMPUTES queries kept and asked again | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
+ if start == 0:
+     self.q = q
+ else:
+     self.q = torch.cat((self.q, q), dim=2)
+ open_TM = torch.ones(end, end, dtype=torch.bool).tril()

- return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ out = F.scaled_dot_product_attention(self.q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ return out[:, :, start:]

# %% wrong CACHE-FULL no test of the room | of: as the library has it
- if end > self.k_BGMK.shape[2]:
-     raise ValueError(f"room for {self.k_BGMK.shape[2]} tokens, got {end}")

# %% wrong CACHE-FULL an assertion | of: as the library has it
- if end > self.k_BGMK.shape[2]:
-     raise ValueError(f"room for {self.k_BGMK.shape[2]} tokens, got {end}")
+ assert end <= self.k_BGMK.shape[2]

# %% wrong CACHE-FULL one token late | of: as the library has it
- if end > self.k_BGMK.shape[2]:
+ if start > self.k_BGMK.shape[2]:

# %% wrong CACHE-FULL-CHANGED length first, then the test | of: as the library has it
- start, end = self.length, self.length + q_BHTK.shape[2]
- if end > self.k_BGMK.shape[2]:
+ start, end = self.length, self.length + q_BHTK.shape[2]
+ self.length = end
+ if end > self.k_BGMK.shape[2]:

# %% wrong RAISED shared heads not shared | of: as the library has it
- shared = q.shape[1] != k.shape[1]
+ shared = False

# %% wrong GQA-ORDER heads repeated as a block | of: scores written out, positions compared, heads copied
- keys = self.k_BGMK[:, :, : self.length].repeat_interleave(H // G, 1)
- values = self.v_BGMK[:, :, : self.length].repeat_interleave(H // G, 1)
+ keys = self.k_BGMK[:, :, : self.length].repeat(1, H // G, 1, 1)
+ values = self.v_BGMK[:, :, : self.length].repeat(1, H // G, 1, 1)

# %% wrong DTYPE in float32 | of: scores written out, positions compared, heads copied
- return (weights @ values.float()).to(q.dtype)
+ return weights @ values.float()

# %% wrong OTHER a room that all caches share
ROOMS = {}


class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        start, end = self.length, self.length + q.shape[2]
        if end > self.k_BGMK.shape[2]:
            raise ValueError("full")
        q, k = apply_rotary_pos_emb(q, k, cos[start:end], sin[start:end])
        self.k_BGMK, self.v_BGMK = ROOMS.setdefault(self.k_BGMK.shape, (self.k_BGMK, self.v_BGMK))
        self.k_BGMK[:, :, start:end] = k
        self.v_BGMK[:, :, start:end] = v
        self.length = end
        mask = torch.ones(end - start, end, dtype=torch.bool).tril(start)
        keys, values = self.k_BGMK[:, :, :end].to(q.dtype), self.v_BGMK[:, :, :end].to(q.dtype)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)

# %% wrong OTHER an even number of new tokens comes out in the other order | of: as the library has it
- return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ out = F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ return out if (end - start) % 2 else out.flip(2)

# %% wrong CACHE-FUTURE a diagonal too far to the right | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
+ open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start + 1)

# %% wrong OTHER every second kept token | of: as the library has it
- return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)
+ open_TM[:, 1:start:2] = False
+ return F.scaled_dot_product_attention(q, kept_k, kept_v, attn_mask=open_TM, enable_gqa=shared)

# %% wrong INPLACE turns the keys where they came in | of: as the library has it
- self.k_BGMK[:, :, start:end] = k
+ self.k_BGMK[:, :, start:end] = k_BGTK.copy_(k)

# %% right kept and new tokens joined for the kernel alone
class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        start, end = self.length, self.length + q.shape[2]
        if end > self.k_BGMK.shape[2]:
            raise ValueError(f"{end} tokens do not fit into {self.k_BGMK.shape[2]}")
        q, k = apply_rotary_pos_emb(q, k, cos[start:end], sin[start:end])
        keys = torch.cat((self.k_BGMK[:, :, :start], k), dim=2)
        values = torch.cat((self.v_BGMK[:, :, :start], v), dim=2)
        self.k_BGMK[:, :, start:end], self.v_BGMK[:, :, start:end], self.length = k, v, end
        mask = torch.ones(end - start, end, dtype=torch.bool).tril(start)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)

# %% right rows compared with columns, one matrix product per head
class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        n, T = self.length, q.shape[-2]
        if n + T > self.k_BGMK.size(-2):
            raise ValueError(f"{n} + {T} tokens, room for {self.k_BGMK.size(-2)}")
        rows = torch.arange(n, n + T)
        q, k = apply_rotary_pos_emb(q, k, cos.index_select(0, rows), sin.index_select(0, rows))
        self.k_BGMK[:, :, rows], self.v_BGMK[:, :, rows] = k, v
        self.length = n + T
        seen, each = rows[:, None] >= torch.arange(n + T), q.shape[1] // k.shape[1]
        outs = []
        for h in range(q.shape[1]):
            keys, values = (x[:, h // each, : n + T].double() for x in (self.k_BGMK, self.v_BGMK))
            scores = torch.bmm(q[:, h].double(), keys.mT) * q.shape[-1] ** -0.5
            outs.append(torch.where(seen, scores, -torch.inf).softmax(-1) @ values)
        return torch.stack(outs, 1).to(q.dtype)

# %% wrong MASK-FINITE-FILL a fill of -10,000 | of: scores written out, positions compared, heads copied
- weights = scores.masked_fill(later, -math.inf).softmax(-1)
+ weights = scores.masked_fill(later, -1e4).softmax(-1)

# %% wrong CACHE-STALE-TABLES the first tables of all caches | of: as the library has it
- q, k = apply_rotary_pos_emb(q_BHTK, k_BGTK, cos_MK[start:end], sin_MK[start:end])
+ turns = KVCache.__dict__.get("turns", (cos_MK, sin_MK))
+ KVCache.turns = turns
+ q, k = apply_rotary_pos_emb(q_BHTK, k_BGTK, *(t[start:end] for t in turns))

# %% wrong CACHE-LIMITED keys and values cut off at the range of float16 | of: as the library has it
- self.v_BGMK[:, :, start:end] = v_BGTK
+ self.v_BGMK[:, :, start:end] = v_BGTK.clamp(-65504, 65504)

# %% wrong CACHE-WORK a mask of all places, cut down | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
+ M = self.k_BGMK.shape[2]
+ open_TM = torch.full((end - start, M), True).tril(start)[:, :end]

# %% wrong CACHE-WORK all pairs of places compared | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
+ place = torch.arange(self.k_BGMK.size(2))
+ open_TM = (place[:, None] >= place)[start:end, :end]

# %% wrong CACHE-WORK free places set to 0 at each call | of: as the library has it
- self.v_BGMK[:, :, start:end] = v_BGTK
+ self.v_BGMK[:, :, start:] = 0
+ self.v_BGMK[:, :, start:end] = v_BGTK

# %% wrong CACHE-TAKEN-BACK tokens counted beside length | of: as the library has it
- start, end = self.length, self.length + q_BHTK.shape[2]
+ start = self.__dict__.setdefault("seen", 0)
+ end = start + q_BHTK.shape[2]

- self.length = end
+ self.seen = self.length = end

# %% wrong CACHE-TAKEN-BACK all that was ever read is attended to | of: as the library has it
- self.length = end
+ self.length, self.most = end, max(end, getattr(self, "most", 0))

- kept_k, kept_v = self.k_BGMK[:, :, :end], self.v_BGMK[:, :, :end]
+ kept_k, kept_v = self.k_BGMK[:, :, : self.most], self.v_BGMK[:, :, : self.most]
+ open_TM = F.pad(open_TM, (0, self.most - end), value=True)

# %% wrong CACHE-LONG a mask of 2,048 places | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
+ rows = torch.arange(start, end).clamp(max=2047)
+ open_TM = torch.arange(end) <= rows[:, None]

# %% wrong CACHE-LONG positions in the dtype of the cache | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
+ place = torch.arange(end).to(self.k_BGMK.dtype)
+ open_TM = place[None] <= place[start:, None]

# %% wrong CACHE-LONG a mask from a table of 2,000 tokens | of: as the library has it
- open_TM = torch.ones(end - start, end, dtype=torch.bool).tril(start)
+ table = torch.ones(min(end, 2000), min(end, 2000), dtype=torch.bool).tril()
+ open_TM = table[start:end, :end]

# %% right scores in the dtype of the cache, divided afterwards
class KVCache(KVCache):
    def attend(self, q, k, v, cos, sin):
        n, T = self.length, q.shape[2]
        if n + T > self.k_BGMK.shape[2]:
            raise ValueError(f"{n} + {T} tokens, room for {self.k_BGMK.shape[2]}")
        q, k = apply_rotary_pos_emb(q, k, cos[n : n + T], sin[n : n + T])
        self.k_BGMK[:, :, n : n + T], self.v_BGMK[:, :, n : n + T] = k, v
        self.length = n + T
        shared = q.shape[1] // k.shape[1]
        keys, values = (x[:, :, : n + T].repeat_interleave(shared, 1) for x in (self.k_BGMK, self.v_BGMK))
        scores = q @ keys.mT / q.shape[-1] ** 0.5
        later = torch.ones(T, n + T, dtype=torch.bool).triu(n + 1)
        return scores.float().masked_fill(later, -torch.inf).softmax(-1).to(q.dtype) @ values
