// SPDX-License-Identifier: Apache-2.0
/*
 * server [deaf]
 *
 * The server whose start and pipes are measured. It tells its pid in a line, and echoes
 * its stdin until that ends. "deaf" ends neither then nor by SIGTERM.
 */
#include <signal.h>
#include <stdio.h>
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

	(void)argv;
	if (argc > 1)
		signal(SIGTERM, SIG_IGN);
	if (write(1, line, n) != n)
		return 1;
	echo();
	while (argc > 1)
		pause();
	return 0;
}
