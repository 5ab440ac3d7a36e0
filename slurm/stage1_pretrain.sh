#!/bin/bash
#SBATCH --job-name=mathmill-pretrain
#SBATCH --nodes=16
#SBATCH --gpus-per-node=8
#SBATCH --time=7-00:00:00
#SBATCH --exclusive
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Stage 1: continued pretraining with megatron-core. Resumes from its last checkpoint each time it starts.
source "${MATHMILL_HOME:-${SLURM_SUBMIT_DIR:-$PWD}}/slurm/env.sh"
run_stage pretrain
