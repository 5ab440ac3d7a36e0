#!/bin/bash
# node.sh COMMAND…: what srun runs on each node of a stage: the command, with Slurm's SIGUSR1 brought to who must have it.
#
# srun signals this script and the command. torchrun knows nothing of SIGUSR1 and would die of it, and its workers, which
# save a checkpoint and exit with 75, live in sessions of their own where srun's signal does not come. So torchrun
# ignores it, the workers get it from here, and 75, which torchrun turns into 1, is said here again.
(trap '' USR1 && exec "$@") &
pid=$!
case " $* " in
*" torch.distributed.run "*) trap 'stopped=1; kill -USR1 $(cat /proc/"$pid"/task/*/children)' USR1 ;;
*) trap 'stopped=1; kill -USR1 "$pid"' USR1 ;;
esac
while wait "$pid"; code=$?; kill -0 "$pid" 2>/dev/null; do :; done
[ -z "${stopped:-}" ] || [ "$code" = 0 ] || exit 75
exit "$code"
