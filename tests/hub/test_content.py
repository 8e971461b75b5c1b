"""Which files of a repository are fetched."""

from imitbench.hub.pull import files_to_fetch


def test_videos_and_logs_are_not_fetched():
    wanted = files_to_fetch("model", "org/ppo-Thing-v0")
    assert "ppo-Thing-v0.zip" in wanted
    assert "results.json" in wanted
    assert not any("mp4" in name or "train_eval" in name for name in wanted)
