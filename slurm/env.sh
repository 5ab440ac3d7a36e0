# Sourced by the stage scripts: where things are, and how a stage is started on the nodes of a job.
#
# Read from the environment of sbatch:
#   PROFILE        a profile's name or file; default: 7b where there are NVIDIA GPUs, else tiny. A run directory that has
#                  been planned keeps its own.
#   RUN_DIR        the run directory; default: runs/<the profile's name>. Relative paths start where sbatch was called.
#   PYTHON         default: .venv/bin/python of the repository if there is one, else python3
#   MATHMILL_HOME  the repository; default: the folder sbatch was called in
set -uo pipefail

MATHMILL_HOME=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
: "${PROFILE:=$(command -v nvidia-smi >/dev/null && echo 7b || echo tiny)}"
: "${RUN_DIR:=runs/$(basename "$PROFILE" .yaml)}"
: "${PYTHON:=$([ -x "$MATHMILL_HOME/.venv/bin/python" ] && echo "$MATHMILL_HOME/.venv/bin/python" || echo python3)}"
export MATHMILL_HOME PYTHONPATH="$MATHMILL_HOME${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
REQUEUE_CODE=75 # a stage that was told to stop and has saved its work (stage/errors.py)

# run_stage NAME: plan the run if nobody has, start the stage on the job's nodes, and end the job as the stage
# ended. How many nodes and processes a stage has is the profile's to say; the job may hold more nodes than that.
run_stage() {
    local stage=$1 module torchrun nnodes nproc_per_node launch profile=()
    local options=(${STAGE_OPTIONS[@]+"${STAGE_OPTIONS[@]}"}) # of the stage script, for the module
    [ -f "$RUN_DIR/profile.yaml" ] || profile=(--profile "$PROFILE")
    launch=$("$PYTHON" -m pipeline.plan "${profile[@]}" --run-dir "$RUN_DIR" --launch "$stage") || exit
    eval "$launch" # module=… torchrun=0|1 nnodes=… nproc_per_node=…
    if [ "$nnodes" -gt "$SLURM_JOB_NUM_NODES" ]; then
        echo "error: $stage runs on $nnodes nodes and the job has $SLURM_JOB_NUM_NODES: sbatch --nodes=$nnodes" >&2
        exit 2
    fi
    local command=("$PYTHON" -m "$module" --run-dir "$RUN_DIR" ${options[@]+"${options[@]}"})
    if [ "$torchrun" = 1 ]; then
        command=("$PYTHON" -m torch.distributed.run --nnodes "$nnodes" --nproc-per-node "$nproc_per_node"
            --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$(first_node):$(job_port)"
            -m "$module" --run-dir "$RUN_DIR")
    fi
    local log=$RUN_DIR/logs/$stage${SLURM_ARRAY_TASK_ID:+.$SLURM_ARRAY_TASK_ID}.log
    mkdir -p "$RUN_DIR/logs"
    [ /dev/stdout -ef "$log" ] || { echo "log: $log" && exec >>"$log" 2>&1; }
    # pipeline/executors/slurm.py looks for this line: what a start of the job said begins after it
    echo "=== $(date '+%F %T') job $SLURM_JOB_ID (start $((${SLURM_RESTART_COUNT:-0} + 1))): ${command[*]}"
    on_nodes "$nnodes" "${command[@]}"
}

# on_nodes N COMMAND…: one copy of the command on each of N nodes, as one step of the job. SIGUSR1, which Slurm sends
# to this script before the time limit (#SBATCH --signal), is passed on; afterwards the job goes back into the queue.
on_nodes() {
    local nnodes=$1 step code stopped=""
    shift
    # --wait: when one node's copy has ended, the others have two minutes to notice
    srun --nodes="$nnodes" --ntasks="$nnodes" --ntasks-per-node=1 --wait=120 "$MATHMILL_HOME/slurm/node.sh" "$@" &
    step=$!
    trap 'stopped=1; kill -USR1 "$step"' USR1
    while wait "$step"; code=$?; kill -0 "$step" 2>/dev/null; do :; done # a trapped signal ends `wait` early
    if [ "$code" = "$REQUEUE_CODE" ] || { [ -n "$stopped" ] && [ "$code" != 0 ]; }; then
        echo "stopped before it was done (exit code $code): back into the queue"
        scontrol requeue "$SLURM_JOB_ID" && sleep 60 # Slurm ends this script
    fi
    exit "$code"
}

# The address of the job's first node: its name may mean nothing to the resolver.
first_node() {
    scontrol show node "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)" | grep -o 'NodeAddr=[^ ]*' | cut -d= -f2
}

# A port of this job's own for torchrun: several jobs, and several virtual nodes, may share a host. It lies below the
# ephemeral ports and below those of the SGLang servers (evals/server.py).
job_port() { echo $((12000 + SLURM_JOB_ID % 8000)); }
