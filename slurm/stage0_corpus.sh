#!/bin/bash
#SBATCH --job-name=mathmill-corpus
#SBATCH --nodes=1
#SBATCH --time=7-00:00:00
#SBATCH --exclusive
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# Stage 0: mine the corpus out of web pages (fastText, deduplication, decontamination). One node, no GPU.
#
# Many nodes read a large crawl as an array, which needs a planned run directory; the stage itself goes on from there:
#   read=$(sbatch --parsable --array=0-99 slurm/stage0_corpus.sh)
#   sbatch --dependency=afterany:$read slurm/stage0_corpus.sh
# Each input file has its mark of completion: the same array submitted again reads only what is missing, and so does
# the stage. Number a part of an array as the whole: COUNT=100 sbatch --array=7,23 …
source "${MATHMILL_HOME:-${SLURM_SUBMIT_DIR:-$PWD}}/slurm/env.sh"
[ -z "${SLURM_ARRAY_TASK_ID:-}" ] || STAGE_OPTIONS=(--share "$SLURM_ARRAY_TASK_ID/${COUNT:-$SLURM_ARRAY_TASK_COUNT}")
run_stage corpus
