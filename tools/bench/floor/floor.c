// SPDX-License-Identifier: Apache-2.0
/*
 * floor DIR COMMAND...
 *
 * The least that a command in a cgroup of its own can cost: mkdir, clone3, exec, and at
 * the end wait and rmdir. It contains nothing: nobody watches and nobody kills.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char dir[4096];
	int group, status;
	pid_t pid;

	if (argc < 3)
		errx(2, "usage: floor DIR COMMAND...");
	snprintf(dir, sizeof dir, "%s/floor.%d", argv[1], getpid());
	if (mkdir(dir, 0700) || (group = open(dir, O_DIRECTORY | O_CLOEXEC)) < 0)
		err(1, "%s", dir);
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = group };
	pid = syscall(SYS_clone3, &args, sizeof args);
	if (pid < 0)
		err(1, "clone3");
	if (pid == 0) {
		execv(argv[2], argv + 2);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) != pid)
		;
	if (rmdir(dir))
		err(1, "rmdir %s", dir);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
