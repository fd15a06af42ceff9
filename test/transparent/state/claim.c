// SPDX-License-Identifier: Apache-2.0

// claim FILE takes a lock, as of a database or a browser's profile, and an address: an abstract socket of that name. It
// prints "up", or what is taken. It ends with SIGKILL alone.
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int taken(const char *what) {
	printf("%s is taken\n", what);
	return 1;
}

int main(int argc, char **argv) {
	struct sockaddr_un here = {.sun_family = AF_UNIX};
	if (argc != 2 || strlen(argv[1]) >= sizeof here.sun_path - 1)
		return 2;
	signal(SIGTERM, SIG_IGN);
	int lock = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0)
		return taken("the lock");
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(here.sun_path + 1, argv[1]);
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(argv[1]);
	if (bind(listener, (struct sockaddr *)&here, size) != 0 || listen(listener, 1) != 0)
		return taken("the address");
	puts("up");
	fflush(stdout);
	for (;;)
		pause();
}
