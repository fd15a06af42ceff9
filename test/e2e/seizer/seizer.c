// SPDX-License-Identifier: Apache-2.0
/* seizer [first]: holds its parent, or that one's first thread alone, in a ptrace stop before it does anything else, says
 * "up", its parent's pid and its own, and stays. */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

/* A thread that was started meanwhile is found by the next look. */
static bool seize(const char *tasks, pid_t only)
{
	bool found = false;
	DIR *dir = opendir(tasks);
	if (dir == NULL)
		return false;
	for (struct dirent *e; (e = readdir(dir)) != NULL;) {
		pid_t thread = atoi(e->d_name);
		if (thread == 0 || (only != 0 && thread != only) || ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
			continue;
		ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
		found = true;
	}
	closedir(dir);
	return found;
}

int main(int argc, char **argv)
{
	(void)argv;
	char tasks[64];
	signal(SIGTERM, SIG_IGN);
	snprintf(tasks, sizeof tasks, "/proc/%d/task", getppid());
	while (seize(tasks, argc > 1 ? getppid() : 0))
		;
	printf("up %d %d\n", getppid(), getpid());
	fflush(stdout);
	for (;;)
		pause();
}
