"""labels.jsonl after a kill: whole questions are kept, a torn one is asked again."""

import json
from dataclasses import asdict

from rl.reward.completions import Labelled, read_labelled


def line(question: int) -> str:
    item = Labelled(question, "1+1=2", "2", True, [1, 2], [[3], [4]], [0.5, 1.0])
    return json.dumps(asdict(item)) + "\n"


def test_what_is_whole_is_read_back(tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_text(line(0) + line(0) + line(1) + line(1))
    assert [item.question for item in read_labelled(path, num_solutions=2)] == [0, 0, 1, 1]
    assert read_labelled(path, 2)[0] == Labelled(0, "1+1=2", "2", True, [1, 2], [[3], [4]], [0.5, 1.0])


def test_a_torn_question_is_cut_off_the_file(tmp_path):
    path = tmp_path / "labels.jsonl"
    for torn in (line(1)[:20], line(1), line(1) + line(1)[:-1]):
        path.write_text(line(0) + line(0) + torn)
        assert [item.question for item in read_labelled(path, num_solutions=2)] == [0, 0]
        assert path.read_text() == line(0) + line(0)


def test_nothing_there_is_nothing_done(tmp_path):
    assert read_labelled(tmp_path / "labels.jsonl", 2) == []


def test_a_line_separator_that_a_model_wrote_is_no_line_end(tmp_path):
    path = tmp_path / "labels.jsonl"
    item = asdict(Labelled(0, "a\u2028b\u0085c", "2", True, [1], [[3]], [1.0]))
    path.write_text((json.dumps(item, ensure_ascii=False) + "\n") * 2)
    assert [labelled.text for labelled in read_labelled(path, 2)] == ["a\u2028b\u0085c"] * 2
