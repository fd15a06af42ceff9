// SPDX-License-Identifier: Apache-2.0
/* seizer: holds its parent in a ptrace stop before it does anything else, says "up", and stays. */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <unistd.h>

/* A thread that was started meanwhile is found by the next look. */
static bool seize_all(const char *tasks)
{
	bool found = false;
	DIR *dir = opendir(tasks);
	if (dir == NULL)
		return false;
	for (struct dirent *e; (e = readdir(dir)) != NULL;) {
		pid_t thread = atoi(e->d_name);
		if (thread == 0 || ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
			continue;
		ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
		found = true;
	}
	closedir(dir);
	return found;
}

int main(void)
{
	char tasks[64];
	signal(SIGTERM, SIG_IGN);
	snprintf(tasks, sizeof tasks, "/proc/%d/task", getppid());
	while (seize_all(tasks))
		;
	puts("up");
	fflush(stdout);
	for (;;)
		pause();
}
