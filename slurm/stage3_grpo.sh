#!/bin/bash
#SBATCH --job-name=mathmill-grpo
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --time=4-00:00:00
#SBATCH --exclusive
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Stage 3: GRPO. The stage starts and stops its own SGLang servers.
source "${MATHMILL_HOME:-${SLURM_SUBMIT_DIR:-$PWD}}/slurm/env.sh"
run_stage grpo
