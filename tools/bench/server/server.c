// SPDX-License-Identifier: Apache-2.0
/*
 * server [N]
 *
 * The server whose start and pipes are measured. It prints its pid in a line, and echoes
 * its stdin until that ends. With N it is N processes that ignore SIGTERM and the end of
 * stdin, and the line comes when all of them run.
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char buffer[64 * 1024];

static void echo(void)
{
	ssize_t n;

	while ((n = read(0, buffer, sizeof buffer)) > 0) {
		for (ssize_t done = 0; done < n;) {
			ssize_t m = write(1, buffer + done, n - done);

			if (m < 0)
				return;
			done += m;
		}
	}
}

int main(int argc, char **argv)
{
	char line[16];
	int n = snprintf(line, sizeof line, "%d\n", getpid());

	if (argc > 1) {
		signal(SIGTERM, SIG_IGN);
		for (int i = 1; i < atoi(argv[1]); i++) {
			pid_t pid = fork();

			if (pid < 0)
				err(1, "fork");
			while (pid == 0)
				pause();
		}
	}
	if (write(1, line, n) != n)
		return 1;
	while (argc > 1)
		pause();
	echo();
	return 0;
}
