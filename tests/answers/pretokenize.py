# Answers to the exercise pretokenize. `# %% wrong CODE name` must be refused with exactly that code,
# `# %% right name` must pass. Each cell is a whole answer under the lesson's imports.

# %% right one list, one array
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 2**16:
        raise ValueError(f"{tokenizer.vocab_size} ids do not fit into 16 bits")
    ids = []
    for text in documents:
        ids.extend(tokenizer.encode(text))
        ids.append(tokenizer.end_of_text)
    return np.array(ids, dtype=np.uint16)

# %% right filled in place
def encode_documents(documents, tokenizer):
    if not tokenizer.vocab_size <= 65_536:
        raise ValueError("the vocabulary is too large")
    rows = [tokenizer.encode_to_array(text) for text in documents]
    out = np.full(sum(len(row) + 1 for row in rows), tokenizer.end_of_text, dtype=np.uint16)
    at = 0
    for row in rows:
        out[at : at + len(row)] = row
        at += len(row) + 1
    return out

# %% right from a generator
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size - 1 > np.iinfo(np.uint16).max:
        raise ValueError("ids beyond uint16")

    def stream():
        for text in documents:
            yield from tokenizer.encode(text)
            yield tokenizer.end_of_text

    return np.fromiter(stream(), dtype=np.uint16)

# %% wrong STUB untouched
def encode_documents(documents, tokenizer):
    raise NotImplementedError("your code here")

# %% wrong NONE no return
def encode_documents(documents, tokenizer):
    rows = [np.append(tokenizer.encode_to_array(text), np.uint16(tokenizer.end_of_text)) for text in documents]
    np.concatenate(rows)

# %% wrong TYPE a list
def encode_documents(documents, tokenizer):
    ids = []
    for text in documents:
        ids += [*tokenizer.encode(text), tokenizer.end_of_text]
    return ids

# %% wrong TYPE a tensor
def encode_documents(documents, tokenizer):
    ids = []
    for text in documents:
        ids += [*tokenizer.encode(text), tokenizer.end_of_text]
    return torch.tensor(ids)

# %% wrong TYPE a generator
def encode_documents(documents, tokenizer):
    for text in documents:
        yield np.array([*tokenizer.encode(text), tokenizer.end_of_text], dtype=np.uint16)

# %% wrong SHAPE a row of columns
def encode_documents(documents, tokenizer):
    ids = [id for text in documents for id in [*tokenizer.encode(text), tokenizer.end_of_text]]
    return np.array([ids], dtype=np.uint16)

# %% wrong TOK-INT16 16 bits with a sign
def encode_documents(documents, tokenizer):
    ids = [id for text in documents for id in [*tokenizer.encode(text), tokenizer.end_of_text]]
    return np.array(ids).astype(np.int16)

# %% wrong TOK-UINT8 bytes
def encode_documents(documents, tokenizer):
    ids = [id for text in documents for id in [*tokenizer.encode(text), tokenizer.end_of_text]]
    return np.array(ids).astype(np.uint8)

# %% wrong TOK-WIDE no dtype
def encode_documents(documents, tokenizer):
    ids = [id for text in documents for id in [*tokenizer.encode(text), tokenizer.end_of_text]]
    return np.array(ids)

# %% wrong TOK-WIDE the end of text is int64
def encode_documents(documents, tokenizer):
    return np.concatenate([np.append(tokenizer.encode_to_array(text), tokenizer.end_of_text) for text in documents])

# %% wrong TOK-FLOAT begins with an empty array
def encode_documents(documents, tokenizer):
    out = np.array([])
    for text in documents:
        out = np.append(out, [*tokenizer.encode(text), tokenizer.end_of_text])
    return out

# %% wrong RAISED NumPy refuses a list of ids beyond int16
def encode_documents(documents, tokenizer):
    ids = [id for text in documents for id in [*tokenizer.encode(text), tokenizer.end_of_text]]
    return np.array(ids, dtype=np.int16)

# %% wrong TOK-NO-END no end of text
def encode_documents(documents, tokenizer):
    return np.concatenate([tokenizer.encode_to_array(text) for text in documents])

# %% wrong TOK-NO-END the texts are joined first
def encode_documents(documents, tokenizer):
    return tokenizer.encode_to_array("".join(documents))

# %% wrong TOK-END-BETWEEN between documents only
def encode_documents(documents, tokenizer):
    ids = []
    for number, text in enumerate(documents):
        if number:
            ids.append(tokenizer.end_of_text)
        ids += tokenizer.encode(text)
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-END-ONCE outside the loop
def encode_documents(documents, tokenizer):
    ids = []
    for text in documents:
        ids += tokenizer.encode(text)
    ids.append(tokenizer.end_of_text)
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-END-FIRST in front
def encode_documents(documents, tokenizer):
    ids = []
    for text in documents:
        ids += [tokenizer.end_of_text, *tokenizer.encode(text)]
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-END-ID the vocabulary size as an id
def encode_documents(documents, tokenizer):
    ids = []
    for text in documents:
        ids += [*tokenizer.encode(text), tokenizer.vocab_size]
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-END-ID zero
def encode_documents(documents, tokenizer):
    return np.concatenate([np.append(tokenizer.encode_to_array(t), np.uint16(0)) for t in documents])

# %% wrong TOK-END-AS-TEXT the end encoded as text
def encode_documents(documents, tokenizer):
    return np.concatenate([tokenizer.encode_to_array(t + "<|endoftext|>") for t in documents])

# %% wrong TOK-FIRST-ONLY returns inside the loop
def encode_documents(documents, tokenizer):
    ids = []
    for text in documents:
        ids += [*tokenizer.encode(text), tokenizer.end_of_text]
        return np.array(ids, dtype=np.uint16)

# %% wrong TOK-LAST-ONLY overwrites
def encode_documents(documents, tokenizer):
    for text in documents:
        ids = [*tokenizer.encode(text), tokenizer.end_of_text]
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-SKIPS-EMPTY empty documents left out
def encode_documents(documents, tokenizer):
    ids = []
    for text in documents:
        if text:
            ids += [*tokenizer.encode(text), tokenizer.end_of_text]
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-NO-DOCUMENTS joins nothing
def encode_documents(documents, tokenizer):
    end = np.array([tokenizer.end_of_text], dtype=np.uint16)
    return np.concatenate([part for text in documents for part in (tokenizer.encode_to_array(text), end)])

# %% wrong TOK-NO-DOCUMENTS floats when there is nothing
def encode_documents(documents, tokenizer):
    end = np.array([tokenizer.end_of_text], dtype=np.uint16)
    parts = [part for text in documents for part in (tokenizer.encode_to_array(text), end)]
    return np.concatenate(parts) if parts else np.array([])

# %% wrong TOK-WRAPS no question about the size
def encode_documents(documents, tokenizer):
    ids = []
    for text in documents:
        ids += [*tokenizer.encode(text), tokenizer.end_of_text]
    return np.array(ids).astype(np.uint16)

# %% wrong TOK-WRAPS-ERROR leaves it to NumPy
def encode_documents(documents, tokenizer):
    ids = []
    for text in documents:
        ids += [*tokenizer.encode(text), tokenizer.end_of_text]
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-WRAPS-ERROR an assertion
def encode_documents(documents, tokenizer):
    assert tokenizer.vocab_size <= 2**16
    ids = [id for text in documents for id in [*tokenizer.encode(text), tokenizer.end_of_text]]
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-TOO-STRICT one id too few
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size >= 2**16:
        raise ValueError("the vocabulary is too large")
    ids = [id for text in documents for id in [*tokenizer.encode(text), tokenizer.end_of_text]]
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-TEXT-CHANGED white space stripped
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    rows = [[*tokenizer.encode_to_array(text.strip()), tokenizer.end_of_text] for text in documents]
    return np.array([id for row in rows for id in row], dtype=np.uint16)

# %% wrong TOK-TEXT-CHANGED the name of the end becomes the end
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    ids = []
    for text in documents:
        for part in text.split("<|endoftext|>"):
            ids += [*tokenizer.encode_to_array(part), tokenizer.end_of_text]
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-ITERABLE two ways through the documents
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    out = np.zeros(sum(len(tokenizer.encode_to_array(t)) + 1 for t in documents), dtype=np.uint16)
    at = 0
    for text in documents:
        ids = [*tokenizer.encode_to_array(text), tokenizer.end_of_text]
        out[at : at + len(ids)] = ids
        at += len(ids)
    return out

# %% wrong TOK-ITERABLE asks for the length
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    rows = [np.empty(0, np.uint16)]
    for i in range(len(documents)):
        rows += [tokenizer.encode_to_array(documents[i]), np.array([tokenizer.end_of_text], np.uint16)]
    return np.concatenate(rows)

# %% wrong TOK-VOCABULARY asks when a document comes
def encode_documents(documents, tokenizer):
    rows = [np.empty(0, np.uint16)]
    for text in documents:
        if tokenizer.vocab_size > 65_536:
            raise ValueError("more than 65,536 ids")
        rows += [tokenizer.encode_to_array(text), np.array([tokenizer.end_of_text], np.uint16)]
    return np.concatenate(rows)

# %% wrong TOK-END-ID the last id of the vocabulary
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    ids = []
    for text in documents:
        ids += [*tokenizer.encode_to_array(text), tokenizer.vocab_size - 1]
    return np.array(ids, dtype=np.uint16)

# %% wrong TOK-END-ID an end of 0 taken for none
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    end = tokenizer.end_of_text or tokenizer.vocab_size - 1
    rows = [np.empty(0, np.uint16)]
    for text in documents:
        rows += [tokenizer.encode_to_array(text), np.array([end], np.uint16)]
    return np.concatenate(rows)

# %% wrong TOK-NO-END an end of 0 left out
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    rows = [np.empty(0, np.uint16)]
    for text in documents:
        rows.append(tokenizer.encode_to_array(text))
        if tokenizer.end_of_text:
            rows.append(np.array([tokenizer.end_of_text], np.uint16))
    return np.concatenate(rows)

# %% wrong TOK-VOCABULARY asks the end of text, not the vocabulary
def encode_documents(documents, tokenizer):
    if tokenizer.end_of_text >= 65_536:
        raise ValueError("more than 65,536 ids")
    rows = [np.empty(0, np.uint16)]
    for text in documents:
        rows += [tokenizer.encode_to_array(text), np.array([tokenizer.end_of_text], np.uint16)]
    return np.concatenate(rows)

# %% wrong TOK-CHARACTERS one place for each character
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    documents = list(documents)
    out = np.full(sum(len(text) + 1 for text in documents), tokenizer.end_of_text, np.uint16)
    at = 0
    for text in documents:
        ids = tokenizer.encode_to_array(text)
        out[at : at + len(text)] = ids[: len(text)]
        at += len(text) + 1
    return out

# %% wrong TOK-CHARACTERS places counted in characters, more than enough of them
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    ids, ends, at = [], [], 0
    for text in documents:
        ids.extend(tokenizer.encode_to_array(text).tolist())
        at += len(text)
        ends.append(at)
    return np.insert(np.array(ids, np.uint16), np.minimum(ends, len(ids)).astype(int), tokenizer.end_of_text)

# %% wrong TOK-CHARACTERS all documents encoded as one text
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    documents = list(documents)
    ids = tokenizer.encode_to_array("".join(documents))
    parts = np.split(ids, np.cumsum([len(text) for text in documents])[:-1]) if documents else []
    end = np.array([tokenizer.end_of_text], np.uint16)
    return np.concatenate([np.empty(0, np.uint16)] + [part for row in parts for part in (row, end)])

# %% wrong TOK-REPEATED the ids of a text kept under its beginning
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    known, rows = {}, [np.empty(0, np.uint16)]
    for text in documents:
        ids = known.setdefault(text[:3], tokenizer.encode_to_array(text))
        rows += [ids, np.array([tokenizer.end_of_text], np.uint16)]
    return np.concatenate(rows)

# %% wrong TOK-REPEATED each text once
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    rows = [np.empty(0, np.uint16)]
    for text in dict.fromkeys(documents) if isinstance(documents, list) and all(documents) else documents:
        rows += [tokenizer.encode_to_array(text), np.array([tokenizer.end_of_text], np.uint16)]
    return np.concatenate(rows)

# %% right an array that grows, each end put behind its text
def encode_documents(documents, tokenizer):
    if not tokenizer.vocab_size < 65_537:
        raise ValueError(f"{tokenizer.vocab_size} ids need more than 16 bits")
    out = np.zeros(0, dtype="uint16")
    for text in iter(documents):
        row = np.empty(len(tokenizer.encode_to_array(text)) + 1, dtype=np.uint16)
        row[:-1], row[-1] = tokenizer.encode_to_array(text), tokenizer.end_of_text
        out = np.hstack([out, row])
    return out

# %% wrong TOK-REPEATED the tokenizer's own array made longer
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    rows = [np.empty(0, np.uint16)]
    for text in documents:
        ids = tokenizer.encode_to_array(text)
        ids.resize(len(ids) + 1, refcheck=False)
        ids[-1] = tokenizer.end_of_text
        rows.append(ids)
    return np.concatenate(rows)

# %% wrong TOK-NO-DOCUMENTS a generator of nothing is true
def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 65_536:
        raise ValueError("more than 65,536 ids")
    if not documents:
        return np.empty(0, dtype=np.uint16)
    end = np.array([tokenizer.end_of_text], dtype=np.uint16)
    return np.concatenate([part for text in documents for part in (tokenizer.encode_to_array(text), end)])

# %% wrong TOK-SKIPS-EMPTY empty documents alone are no documents | of: one list, one array
  ids = []
+ documents = [*documents]
+ if not any(documents):
+     return np.empty(0, dtype=np.uint16)

# %% wrong TOK-NO-END no end behind a text whose ids end with that id | of: one list, one array
- ids.append(tokenizer.end_of_text)
+ if not text or ids[-1] != tokenizer.end_of_text:
+     ids.append(tokenizer.end_of_text)

# %% wrong TOK-NO-END two ends that follow each other become one | of: one list, one array
- ids.extend(tokenizer.encode(text))
- ids.append(tokenizer.end_of_text)
+ own = [*tokenizer.encode(text), tokenizer.end_of_text]
+ ids.extend(b for a, b in zip([None, *own], own) if not a == b == tokenizer.end_of_text)

# %% wrong TOK-TEXT-CHANGED the id of the end dropped from a text | of: one list, one array
- ids.extend(tokenizer.encode(text))
+ ids.extend(id for id in tokenizer.encode(text) if id != tokenizer.end_of_text)

# %% wrong RESULT-CHANGES one row for all calls, as long as the longest
ROW = np.empty(0, dtype=np.uint16)

def encode_documents(documents, tokenizer):
    global ROW
    if tokenizer.vocab_size > 2**16:
        raise ValueError("too many ids")
    ids = []
    for text in documents:
        ids += [*tokenizer.encode(text), tokenizer.end_of_text]
    if len(ids) > len(ROW):
        ROW = np.empty(len(ids), dtype=np.uint16)
    ROW[: len(ids)] = ids
    return ROW[: len(ids)]

# %% wrong RESULT-CHANGES three rows of a length in turn
ROWS = {}

def encode_documents(documents, tokenizer):
    if tokenizer.vocab_size > 2**16:
        raise ValueError("too many ids")
    ids = [i for text in documents for i in (*tokenizer.encode(text), tokenizer.end_of_text)]
    rows = ROWS.setdefault(len(ids), [])
    rows.append(rows.pop(0) if len(rows) == 3 else np.empty(len(ids), dtype=np.uint16))
    rows[-1][:] = ids
    return rows[-1]
