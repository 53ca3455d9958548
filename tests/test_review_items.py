"""The review items: every answer that can be computed is, with torch and the library."""

from types import SimpleNamespace

import pytest

from course_lib.lab import registry
from course_lib.lab.reviews import items as items_module
from course_lib.lab.reviews.items import items
from tests import course
from tests.reviews import read_proofs

COMPUTED, ARGUED = read_proofs()
WRITTEN = {k: v for lesson in course.lessons() for k, v in lesson.written_reviews.items()}


def test_every_item_is_computed_or_argued():
    for name, item in items().items():
        place = f"tests/reviews/{item.lesson}.py"
        function = name.replace("-", "_")
        assert name in {*COMPUTED, *ARGUED}, (
            f"{place}: write `def {function}(n):`, which returns the answer of review-{name}, "
            f"or a line `{name!r}: reason` in ARGUED"
        )
        assert not (name in COMPUTED and name in ARGUED), f"{place}: {name} is in ARGUED too"
    old = {*COMPUTED, *ARGUED} - set(items())
    assert not old, f"no lesson has the items {sorted(old)}: remove them from tests/reviews"


@pytest.mark.parametrize("name", COMPUTED)
def test_the_answer_is_what_torch_and_the_library_say(name):
    item = items()[name]
    for index, names in enumerate(WRITTEN[name].names):
        accept = item.variant_at(index).accept
        found = COMPUTED[name](SimpleNamespace(**names))
        typed = ", ".join(map(str, found)) if isinstance(found, list) else str(found)
        assert accept.holds(typed), f"{name}, {names}: {accept.right}, not {typed}"


@pytest.mark.parametrize("item", items().values(), ids=lambda i: i.id)
def test_an_item_is_short_and_clean(item):
    for index in range(item.variants):
        question, answer, accept = item.variant_at(index)
        assert question.endswith("?") and len(question.split()) <= 45, question
        for text in (question, answer):
            assert not {"{", "}"} & set(text) and "  " not in text, text


def test_every_concept_that_is_taught_is_asked_about():
    taught = {c for card in registry.exercises().values() for c in card.teaches}
    silent = taught - {c for item in items().values() for c in item.concepts}
    assert not silent, (
        f"no review item has {sorted(silent)} in its line `% concepts:`: ask about it"
    )


def test_each_exercise_has_two_to_four_items():
    for exercise in registry.exercises():
        own = [i for i in items().values() if i.exercise == exercise]
        lesson = registry.exercise(exercise).lesson
        assert 2 <= len(own) <= 4, (
            f"book/{lesson}.md: {exercise} has {len(own)} review items, expected 2 to 4: "
            f"add or remove a dropdown named review-{exercise}-N in its section Review"
        )
        assert {i.lesson for i in own} == {lesson}


def test_a_seed_gives_one_variant_and_neighbors_differ():
    for item in items().values():
        asked = [item.variant(seed).question for seed in range(item.variants)]
        assert len(set(asked)) == item.variants, item.id
        assert item.variant(3) == item.variant(3) and item.variant(-1) and item.variant(2**70)


def test_options_change_their_places_and_the_right_one_stays():
    item = items()["load-checkpoint-1"]
    drawn = [item.variant(seed) for seed in range(0, 40, item.variants)]
    assert len({d.question for d in drawn}) == 1
    assert len({d.accept.options for d in drawn}) > 3
    assert all(d.accept.right in d.accept.options for d in drawn)


def test_without_its_file_the_lab_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setattr(items_module, "FILE", tmp_path / "reviews.json")
    items.cache_clear()
    with pytest.raises(ValueError, match="course build"):
        items()
    items.cache_clear()
