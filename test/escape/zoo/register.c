// SPDX-License-Identifier: Apache-2.0
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_len;
bool untag;

static void set_address(const char *name, bool abstract)
{
	size_t len = strlen(name);
	if (len >= sizeof address.sun_path) {
		fprintf(stderr, "zoo: %s is too long for a socket\n", name);
		exit(2);
	}
	memcpy(address.sun_path, name, len + 1);
	if (abstract)
		address.sun_path[0] = 0;
	address_len = offsetof(struct sockaddr_un, sun_path) + len + !abstract;
}

/* A path does not fit into sun_path when the temporary directory is deep: then
 * its directory is named by a descriptor, which stays open for the members. */
void register_at(const char *sock)
{
	char dir[4096], base[4096], shorter[sizeof address.sun_path];
	if (strlen(sock) < sizeof address.sun_path) {
		set_address(sock, sock[0] == '@');
		return;
	}
	snprintf(dir, sizeof dir, "%s", sock);
	snprintf(base, sizeof base, "%s", sock);
	int fd = open(dirname(dir), O_PATH | O_DIRECTORY);
	if (fd < 0)
		die("open the socket's directory");
	if (snprintf(shorter, sizeof shorter, "/proc/self/fd/%d/%s", fd, basename(base)) >= (int)sizeof shorter)
		die("the socket's name is too long");
	set_address(shorter, false);
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
	if (untag) {
		struct rlimit locks;
		getrlimit(RLIMIT_LOCKS, &locks);
		locks.rlim_cur = locks.rlim_max;
		setrlimit(RLIMIT_LOCKS, &locks);
	}
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
