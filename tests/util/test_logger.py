"""The hierarchical logger: raw values in one place, their means in another."""

import csv
import json
import sys
from pathlib import Path

import pytest

from imitbench.util import logger as imit_logger


def rows(path):
    with Path(path).open() as stream:
        return [json.loads(line) for line in stream]


@pytest.fixture
def log(tmp_path):
    made = imit_logger.configure(tmp_path, ["json", "csv"])
    yield made
    made.close()


def test_values_outside_a_context_go_straight_to_the_default_logger(log, tmp_path):
    log.record("loss", 1.0)
    log.record("loss", 2.0)
    log.dump(step=3)
    assert rows(tmp_path / "progress.json") == [{"loss": 2.0}]


def test_means_of_raw_values_reach_the_default_logger(log, tmp_path):
    with log.accumulate_means("dataset"):
        for step, value in enumerate([5.0, 6.0]):
            log.record("entropy", value)
            log.dump(step)
    log.dump(step=1)
    assert rows(tmp_path / "progress.json") == [{"mean/dataset/entropy": 5.5}]
    assert rows(tmp_path / "raw" / "dataset" / "progress.json") == [
        {"raw/dataset/entropy": 5.0},
        {"raw/dataset/entropy": 6.0},
    ]


def test_prefixes_enter_keys_and_folders(log, tmp_path):
    with log.add_accumulate_prefix("foo"), log.accumulate_means("bar"), log.add_key_prefix("key"):
        assert Path(log.get_dir()) == tmp_path / "raw" / "foo" / "bar"
        log.record("biz", 42.0)
        log.dump(2000)
    log.dump(1)
    assert Path(log.get_dir()) == tmp_path
    assert rows(tmp_path / "progress.json") == [{"mean/foo/bar/key/biz": 42.0}]
    assert rows(tmp_path / "raw" / "foo" / "bar" / "progress.json") == [
        {"raw/foo/bar/key/biz": 42.0}
    ]


def test_a_name_used_again_appends(log, tmp_path):
    for value in (1.0, 2.0):
        with log.accumulate_means("x"):
            log.record("v", value)
            log.dump()
    with (tmp_path / "raw" / "x" / "progress.csv").open() as stream:
        assert [row["raw/x/v"] for row in csv.DictReader(stream)] == ["1.0", "2.0"]


def test_record_mean_averages_in_the_default_logger(log, tmp_path):
    for value in (1.0, 3.0):
        log.record_mean("v", value)
    log.dump()
    assert rows(tmp_path / "progress.json") == [{"v": 2.0}]


def test_callbacks_read_recorded_values_from_the_logger_itself(log, tmp_path):
    log.record("loss", 3, exclude="csv")
    log.record_mean("mean", 1.0)
    assert dict(log.name_to_value) == {"loss": 3, "mean": 1.0}
    assert log.name_to_count["mean"] == 1
    assert log.name_to_excluded["loss"] == ("csv",)
    assert log.dir == str(tmp_path)
    with log.accumulate_means("x"):
        log.record("loss", 5)
        assert dict(log.name_to_value) == {"raw/x/loss": 5}
    assert dict(log.name_to_value) == {"loss": 3, "mean": 1.0, "mean/x/loss": 5.0}
    log.dump()
    assert not log.name_to_value


def test_contexts_cannot_be_nested(log):
    with log.accumulate_means("x"):
        with pytest.raises(RuntimeError, match="nested"), log.accumulate_means("y"):
            pass
        with pytest.raises(RuntimeError, match="prefix"), log.add_accumulate_prefix("y"):
            pass
    assert log.current_logger is None


def test_a_key_prefix_without_effect_is_refused(log):
    with pytest.raises(RuntimeError, match="accumulated"), log.add_key_prefix("y"):
        pass


def test_every_logger_without_a_folder_gets_one_of_its_own():
    folders = [imit_logger.configure(format_strs=[]).get_dir() for _ in range(20)]
    assert len(set(folders)) == 20
    for folder in folders:
        Path(folder).rmdir()


def test_the_text_table_groups_keys_by_their_prefix(tmp_path):
    log = imit_logger.configure(tmp_path, ["log"])
    log.record("loss", 1.0)
    log.dump(step=1)
    with log.accumulate_means("dataset"):
        log.record("entropy", 5.0)
        log.dump(step=100)
        log.record("entropy", 6.0)
        log.dump(step=200)
    log.dump(step=1)
    with log.add_accumulate_prefix("foo"), log.accumulate_means("bar"):
        log.record("biz", 42.0)
        log.dump(step=2000)
    log.dump(step=1)
    log.close()
    assert (tmp_path / "log.txt").read_text().splitlines() == [
        "-------------------",
        "| loss | 1        |",
        "-------------------",
        "---------------------------------",
        "| mean/              |          |",
        "|    dataset/entropy | 5.5      |",
        "---------------------------------",
        "-----------------------------",
        "| mean/          |          |",
        "|    foo/bar/biz | 42       |",
        "-----------------------------",
    ]


def test_a_missing_wandb_names_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ModuleNotFoundError, match="pip install wandb"):
        imit_logger.make_output_format("wandb", str(tmp_path))


def test_tensorboard_files_are_written(tmp_path):
    log = imit_logger.configure(tmp_path, ["tensorboard"])
    log.record("loss", 1.0)
    log.dump(1)
    log.close()
    assert list(tmp_path.glob("events.out.tfevents*"))
