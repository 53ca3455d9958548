"""Checkpoints that survive a kill, in two formats: one file, or a folder of shards from all ranks.

What is not here: which parts of a run belong into one (training/). Begin with `single_file`, then
`sharded`; `whole` reads either. `files` writes what a kill leaves whole, `manifest` publishes a
folder, `saved_state` holds an opened checkpoint, `dcp_index` and `dcp_writer` put torch's own
format right.
"""
