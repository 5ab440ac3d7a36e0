#!/bin/bash
#SBATCH --job-name=mathmill-evals
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
#SBATCH --time=12:00:00
#SBATCH --exclusive
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Stage 4: every checkpoint on every benchmark, and the report.
source "${MATHMILL_HOME:-${SLURM_SUBMIT_DIR:-$PWD}}/slurm/env.sh"
run_stage evals
