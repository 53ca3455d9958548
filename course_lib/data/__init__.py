"""Text to batches of tokens: where text comes from, the tokenizer, tokens on disk, windows of them.

What is not here: anything of a model or of training; `batches` knows ranks only as two numbers.
Begin with `tokenizer`, then `token_store` (text to files of token ids, once) and `batches`.
`assets/` holds the byte-pair ranks that ship with the course, `train_ranks` the program that made
them.
"""
