// SPDX-License-Identifier: Apache-2.0
/*
 * crowd N
 *
 * N members of a group, this process among them, or as many as the machine allows, that
 * ignore SIGTERM and wait for SIGKILL. It prints how many there are. The sandbox of the test
 * kills those that are left.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Noreturn void wait_for_kill(void)
{
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
