// SPDX-License-Identifier: Apache-2.0
/*
 * crowd N
 *
 * N members of a group, this process among them, or as many as the machine allows, that
 * ignore SIGTERM and wait for SIGKILL. Says how many there are.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LIFE_SECONDS = 300 };

static _Noreturn void wait_for_kill(void)
{
	alarm(LIFE_SECONDS); /* a timer is not inherited */
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: crowd N\n");
		return 2;
	}
	signal(SIGTERM, SIG_IGN);
	int n = 1;
	for (; n < atoi(argv[1]); n++) {
		pid_t pid = fork();
		if (pid < 0)
			break;
		if (pid == 0)
			wait_for_kill();
	}
	printf("%d\n", n);
	fflush(stdout);
	wait_for_kill();
}
