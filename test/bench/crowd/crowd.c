// SPDX-License-Identifier: Apache-2.0
/*
 * crowd N sleep|busy
 *
 * N members of a group, this process among them, that wait or compute until they are
 * killed. A line says that all of them are there.
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void live(int gate, int busy)
{
	char c;

	(void)!read(gate, &c, 1); /* its end: all have been forked */
	while (busy)
		;
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int gate[2];

	if (argc != 3 || pipe(gate))
		errx(2, "usage: crowd N sleep|busy");
	int busy = !strcmp(argv[2], "busy");

	for (int i = 1; i < atoi(argv[1]); i++) {
		switch (fork()) {
		case -1:
			err(1, "fork");
		case 0:
			close(gate[1]);
			live(gate[0], busy);
		}
	}
	close(gate[1]);
	if (write(1, "ready\n", 6) != 6)
		return 1;
	live(gate[0], busy);
}
