#!/bin/bash
#SBATCH --job-name=mathmill-corpus
#SBATCH --nodes=1
#SBATCH --time=7-00:00:00
#SBATCH --exclusive
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Stage 0: mine the corpus out of web pages (fastText, deduplication, decontamination). One node, no GPU.
source "${MATHMILL_HOME:-${SLURM_SUBMIT_DIR:-$PWD}}/slurm/env.sh"
run_stage corpus
