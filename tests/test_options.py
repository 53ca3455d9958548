"""The command line is the dataclass: types, defaults, words, and errors of one line."""

import dataclasses

import pytest

from course_lib.runs.options import field_words, parse
from course_lib.training.train_config import TrainConfig


def test_every_option_has_words_and_its_default_in_the_help(capsys):
    with pytest.raises(SystemExit) as ended:
        parse(TrainConfig, ["--help"], prog="train")
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    words = field_words(TrainConfig)
    for field in dataclasses.fields(TrainConfig):
        assert len(words[field.name]) > 20, field.name
        assert f"--{field.name}" in text
        assert " ".join(words[field.name].split()) in text
        shown = "none" if field.default is None else field.default
        assert f"[default: {shown}]" in text


def test_values_have_the_types_of_the_fields():
    given = ["--model_size", "tiny", "--max_steps", "7", "--lr", "3e-4", "--no-resume", "--compile",
             "--seq_len", "64"]  # fmt: skip
    config = parse(TrainConfig, given)
    assert config == TrainConfig(
        model_size="tiny", max_steps=7, lr=3e-4, resume=False, compile=True, seq_len=64
    )
    assert parse(TrainConfig, []) == TrainConfig()


@pytest.mark.parametrize(
    "given, words",
    [
        (["--max_steps", "0"], "max_steps must be at least 1, got 0"),
        (["--max_steps", "many"], "invalid int value"),
        (["--model_size", "huge"], "must be one of tiny, small"),
        (["--precision", "fp8"], "auto, fp32, tf32, ieee, bf16, fp16"),
        (["--seq_len", "9999"], "1 to 256"),
        (["--lr", "1e-5"], "expected 0 <= min_lr <= lr"),
        (["--lr", "nan"], "lr must lie between 0 and 100"),
        (["--max_step", "3"], "unrecognized"),
        (["--valid_fraction", "1.5"], "lie between 0 and 1"),
    ],
)
def test_bad_input_is_one_line_and_status_2(given, words, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(TrainConfig, given, prog="train")
    assert ended.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_accumulation_follows_from_the_global_batch():
    config = TrainConfig(batch_size=4, global_batch=24, grad_accumulation=5)
    assert [config.accumulation(world_size) for world_size in (1, 2, 3, 6)] == [6, 3, 2, 1]
    assert TrainConfig(grad_accumulation=5).accumulation(4) == 5
    for world_size in (4, 5, 12):
        with pytest.raises(ValueError, match="global_batch must be a multiple"):
            config.accumulation(world_size)
