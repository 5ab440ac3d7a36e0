#!/bin/bash
#SBATCH --job-name=mathmill-reward
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --time=2-00:00:00
#SBATCH --exclusive
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Stage 2, beside it: Math-Shepherd labels made by the tuned model, and the process reward model trained on them.
source "${MATHMILL_HOME:-${SLURM_SUBMIT_DIR:-$PWD}}/slurm/env.sh"
run_stage reward
