// SPDX-License-Identifier: Apache-2.0
/*
 * deny CALL… COMMAND [ARG…]
 *
 * Executes COMMAND, an absolute path, below a filter that refuses each CALL with EPERM: what
 * yama, or a container's own filter, makes of them.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct { const char *name; unsigned number; } calls[] = {
	{"process_vm_readv", SYS_process_vm_readv},
	{"pidfd_getfd", SYS_pidfd_getfd},
	{"seccomp", SYS_seccomp},
	{"sendmsg", SYS_sendmsg},
	{"epoll_create1", SYS_epoll_create1}, /* without which no watcher of a gateway starts */
	{"rt_sigaction", SYS_rt_sigaction}, /* without which no Go runtime starts */
};

static int refuse(const char *name)
{
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		if (strcmp(calls[i].name, name) != 0)
			continue;
		struct sock_filter filter[] = {
			BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		};
		struct sock_fprog prog = {sizeof filter / sizeof *filter, filter};
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
	}
	errno = EINVAL;
	return -1;
}

int main(int argc, char **argv)
{
	int i = 1;
	for (; i < argc && argv[i][0] != '/'; i++)
		if (refuse(argv[i]) < 0) {
			perror(argv[i]);
			return 2;
		}
	if (i < argc)
		execv(argv[i], argv + i);
	perror("execv");
	return 2;
}
