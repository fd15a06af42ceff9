// SPDX-License-Identifier: Apache-2.0
#include "zoo.h"
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_len;

/* An abstract address, written with an @ for the 0 that it begins with. */
void register_at(const char *sock)
{
	size_t len = strlen(sock);
	if (sock[0] != '@' || len >= sizeof address.sun_path) {
		fprintf(stderr, "zoo: %s is no abstract address\n", sock);
		exit(2);
	}
	memcpy(address.sun_path + 1, sock + 1, len - 1);
	address_len = offsetof(struct sockaddr_un, sun_path) + len;
}

/* All on the stack: the child of a vfork shares our memory. */
static void send_message(const char *text, size_t len, int pidfd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
	struct iovec part = {(void *)text, len};
	struct msghdr message = {.msg_name = &address, .msg_namelen = address_len, .msg_iov = &part, .msg_iovlen = 1};
	if (pidfd >= 0) {
		memcpy(CMSG_DATA(&control.header), &pidfd, sizeof pidfd);
		message.msg_control = control.space;
		message.msg_controllen = sizeof control.space;
	}
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	while (sendmsg(sock, &message, MSG_NOSIGNAL) < 0)
		if (errno == ETOOMANYREFS)
			nanosleep(&pause, NULL); /* as many descriptors as RLIMIT_NOFILE are in flight, of all members of this user */
		else if (errno != EINTR)
			_exit(70); /* nobody watches any more */
	close(sock);
}

void say(const char *format, ...)
{
	char text[256];
	va_list args;
	if (!address_len)
		return;
	va_start(args, format);
	int len = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	send_message(text, len < (int)sizeof text ? len : (int)sizeof text - 1, -1);
}

void born(const char *role)
{
	char text[256];
	limit_life();
	if (!address_len)
		return;
	int pidfd = syscall(SYS_pidfd_open, getpid(), 0);
	if (pidfd < 0)
		die("pidfd_open");
	const char *id = getenv("MCPSCOPE_ID");
	int len = role ? snprintf(text, sizeof text, "born %d %s/%s", getpid(), mode_name, role)
		       : snprintf(text, sizeof text, "main %d %s %s", getpid(), mode_name, id ? id : "-");
	send_message(text, len, pidfd);
	close(pidfd);
}

void die(const char *what)
{
	int err = errno;
	say("error %s: %s: %s", mode_name, what, strerror(err));
	fprintf(stderr, "zoo %s: %s: %s\n", mode_name ? mode_name : "", what, strerror(err));
	_exit(70);
}
