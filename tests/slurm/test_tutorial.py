"""The tutorial for a lab, on a real cluster, with the very profile that it shows."""

import re
import shlex

from support.readme import ROOT

TUTORIAL = (ROOT / "docs" / "tutorials" / "slurm_lab.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)


def test_all_commands_of_the_tutorial_run(cluster, tmp_path, imitbench):
    [profile] = blocks("yaml")
    (tmp_path / "lab.yaml").write_text(profile)
    for line in "".join(blocks("bash")).splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "imitbench"
        answer = imitbench(*arguments)
        assert answer.code == 0, answer.err
        if "--dry-run" in arguments:
            assert "sbatch" in answer.out + answer.err
            assert not cluster.queue()
        elif arguments[0] == "run":
            assert "6 done" in answer.err
