// SPDX-License-Identifier: Apache-2.0
/*
 * stray PID PROCS
 *
 * A server that ends as soon as can be, and leaves a process in the group of PROCS (cgroup.procs) that the first process of the pid
 * namespace of PID gets as its child, for its parent was there.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char path[64];
	int ns, group;

	if (argc != 3)
		return 2;
	snprintf(path, sizeof path, "/proc/%s/ns/pid_for_children", argv[1]);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	group = open(argv[2], O_WRONLY | O_CLOEXEC);
	if (ns < 0 || group < 0 || setns(ns, CLONE_NEWPID) != 0)
		return 3;
	if (fork() == 0) {
		if (write(group, "0", 1) == 1 && fork() == 0) {
			while (read(3, path, 1) > 0) /* a pipe: until the test has ended */
				;
		}
		_exit(0);
	}
	wait(NULL);
	return 0;
}
