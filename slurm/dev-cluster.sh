#!/usr/bin/env bash
# A SLURM cluster of one node, this machine, for trials and tests. Needs root and Debian's packages.
#
#   slurm/dev-cluster.sh start [NAME=VALUE ...]   start it, optionally with settings of slurm.conf
#   slurm/dev-cluster.sh stop                     cancel all jobs and stop it
#   slurm/dev-cluster.sh status                   report whether it is up
#
# Changed settings need a stop before the next start. Not for production: every job
# runs as root, and its memory is not limited.
set -euo pipefail

readonly conf=/etc/slurm/slurm.conf
readonly marker="# written by dev-cluster.sh"
readonly home=${DEV_CLUSTER_HOME:-/var/tmp/imitbench-dev-cluster}
readonly node=devnode

fail() { echo "dev-cluster.sh: $1" >&2; exit 2; }

install_packages() {
    command -v slurmctld >/dev/null && command -v slurmd >/dev/null \
        && command -v sbatch >/dev/null && command -v munged >/dev/null && return
    command -v apt-get >/dev/null \
        || fail "needs slurmctld, slurmd, slurm-client and munge; install them first"
    echo "installing slurmctld, slurmd, slurm-client and munge" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # This script starts the services, not the packages.
    apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null
}

write_conf() {
    if [[ -e $conf ]] && ! grep -qF "$marker" "$conf"; then
        fail "$conf belongs to another cluster; this machine cannot have both"
    fi
    mkdir -p "$(dirname "$conf")" "$home/state" "$home/spool"
    # The real sockets and cores: with others, a node that returns may crash the controller.
    local hardware
    hardware=$(slurmd -C | head -n 1 | grep -oE '(CPUs|Boards|SocketsPerBoard|CoresPerSocket|ThreadsPerCore|RealMemory)=[0-9]+' | tr '\n' ' ')
    {
        echo "$marker"
        echo "ClusterName=dev"
        echo "SlurmctldHost=localhost(127.0.0.1)"
        echo "SlurmUser=root"
        echo "SlurmdUser=root"
        echo "AuthType=auth/munge"
        echo "ProctrackType=proctrack/linuxproc"
        echo "TaskPlugin=task/none"
        echo "SwitchType=switch/none"
        echo "MpiDefault=none"
        echo "SelectType=select/cons_tres"
        echo "SelectTypeParameters=CR_Core"
        echo "ReturnToService=2"
        echo "JobRequeue=1"
        echo "SlurmctldPidFile=$home/slurmctld.pid"
        echo "SlurmdPidFile=$home/slurmd.pid"
        echo "SlurmctldLogFile=$home/slurmctld.log"
        echo "SlurmdLogFile=$home/slurmd.log"
        echo "StateSaveLocation=$home/state"
        echo "SlurmdSpoolDir=$home/spool"
        echo "NodeName=$node NodeHostname=$(hostname) NodeAddr=127.0.0.1 $hardware"
        echo "PartitionName=debug Nodes=$node Default=YES MaxTime=INFINITE State=UP"
        # A setting from the command line replaces the default, so that none occurs twice.
        for setting in "MaxArraySize=10001" "KillWait=30" "SlurmdTimeout=60" \
            "SchedulerParameters=sched_interval=2"; do
            given=no
            for own in "$@"; do [[ ${own%%=*} == "${setting%%=*}" ]] && given=yes; done
            [[ $given == yes ]] || echo "$setting"
        done
        for own in "$@"; do echo "$own"; done
    } >"$conf"
}

start_munge() {
    pgrep -x munged >/dev/null && return
    if [[ ! -e /etc/munge/munge.key ]]; then
        (umask 077; dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 status=none)
        chown munge:munge /etc/munge/munge.key
    fi
    mkdir -p /run/munge
    chown munge:munge /run/munge
    runuser -u munge -- munged
}

is_up() { [[ $(timeout 5 sinfo --noheader --format=%T 2>/dev/null) =~ ^(idle|mixed|allocated|completing)$ ]]; }

start() {
    [[ $EUID -eq 0 ]] || fail "needs root"
    install_packages
    if is_up && [[ $# -eq 0 ]]; then echo "already up"; return; fi
    pgrep -x slurmctld >/dev/null && fail "already running; stop it first to change its settings"
    local setting
    for setting in "$@"; do
        [[ $setting == *=* ]] || fail "$setting: a setting is NAME=VALUE, as in slurm.conf"
    done
    write_conf "$@"
    start_munge
    slurmctld
    slurmd -N "$node"
    for _ in $(seq 150); do
        if is_up; then echo "up: $(nproc) CPUs, partition debug; logs in $home"; return; fi
        sleep 0.2
    done
    fail "did not come up; see $home/slurmctld.log and $home/slurmd.log"
}

stop() {
    [[ $EUID -eq 0 ]] || fail "needs root"
    if pgrep -x slurmctld >/dev/null; then
        timeout 10 scancel --user=root 2>/dev/null || true
        for _ in $(seq 100); do
            [[ -n $(timeout 5 squeue --noheader 2>/dev/null) ]] || break
            sleep 0.2
        done
    fi
    local daemon
    for daemon in slurmd slurmctld; do pkill -x "$daemon" || true; done
    for daemon in slurmd slurmctld; do
        for _ in $(seq 100); do pgrep -x "$daemon" >/dev/null || break; sleep 0.1; done
        pkill -9 -x "$daemon" || true
    done
    if [[ -e $conf ]] && grep -qF "$marker" "$conf"; then rm -f "$conf"; fi
    rm -rf "$home/state" "$home/spool"
    echo "stopped"
}

case ${1:-} in
    start) shift; start "$@" ;;
    stop) stop ;;
    status) if is_up; then echo "up"; else echo "down"; exit 1; fi ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
