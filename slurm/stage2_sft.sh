#!/bin/bash
#SBATCH --job-name=mathmill-sft
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --time=12:00:00
#SBATCH --exclusive
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Stage 2: instruction tuning of the pretrained model.
source "${MATHMILL_HOME:-${SLURM_SUBMIT_DIR:-$PWD}}/slurm/env.sh"
run_stage sft
