// SPDX-License-Identifier: Apache-2.0
/*
 * stage FD FILTER COMMAND...
 *
 * Installs a seccomp filter (FILTER: its instructions, in hexadecimal) that reports
 * system calls to a listener, sends the listener to the socket FD, and executes
 * COMMAND. The filter has to let sendmsg(2) on descriptor TAKEN go: until the test
 * has the listener nobody would answer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TAKEN = 1000, MOST = 512 };

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* Linux 5.19 */
#endif

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "stage: %s: %s\n", what, strerror(errno));
	_exit(70);
}

static struct sock_fprog parse(const char *hex)
{
	static struct sock_filter filter[MOST];
	unsigned char *byte = (unsigned char *)filter;
	size_t n = strlen(hex) / 2;
	for (size_t i = 0; i < n && i < sizeof filter; i++)
		must(sscanf(hex + 2 * i, "%2hhx", byte + i) == 1 ? 0 : -1, "parse the filter");
	return (struct sock_fprog){.len = n / sizeof *filter, .filter = filter};
}

static void send_listener(int listener)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
	struct iovec part = {"listener", 8};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
	memcpy(CMSG_DATA(&control.header), &listener, sizeof listener);
	must(sendmsg(TAKEN, &message, MSG_NOSIGNAL), "send the listener");
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	struct sock_fprog filter = parse(argv[2]);
	int given = atoi(argv[1]);
	must(dup3(given, TAKEN, O_CLOEXEC), "move the socket");
	close(given);
	if (geteuid() != 0) /* without privileges a filter must not reach setuid programs */
		must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "give privileges up");
	/* A call that was reported waits whatever signal comes: the Go runtime interrupts its
	 * own threads, and a call that starts again would be counted twice. */
	int listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			       SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &filter);
	must(listener, "install the filter");
	send_listener(listener);
	execv(argv[3], argv + 3);
	must(-1, argv[3]);
}
