// SPDX-License-Identifier: Apache-2.0
/*
 * world --make POINT
 * world --in PID [--proc | --no-proc | --read-only POINT] [--litter FD] -- COMMAND...
 *
 * A world is a control group that is the root of the hierarchy for all that runs
 * in it: tests of one product in many worlds at a time can't meet, whatever they
 * sweep. --make is started in new mount and cgroup namespaces, mounts cgroup2 at
 * POINT, and then echoes its stdin for as long as it lasts: it is also the
 * bystander in the root group. --in executes a command in the world of PID; the
 * group it was born in stays its own. --litter leaves the command with a child
 * that it does not know and with an orphan, both alive until FD is closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "world: %s: %s\n", what, strerror(errno));
	exit(70);
}

/* Every signal keeps its default action: a bystander shows when it is hit. */
static void echo(void)
{
	char text[256];
	ssize_t n;
	while ((n = read(0, text, sizeof text)) > 0)
		if (write(1, text, n) < 0)
			return;
}

static void make(const char *point)
{
	must(umount2(point, MNT_DETACH), "unmount cgroup2");
	must(mount("cgroup2", point, "cgroup2", 0, NULL), "mount cgroup2");
	must(printf("made\n"), "report");
	fflush(stdout);
	echo();
}

/* By files of /proc and not by a pidfd: it also works for the first process of a
 * pid namespace, which still sees the /proc of the namespace it comes from. */
static void join(const char *pid, const char *namespace)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, namespace);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd, path);
	must(setns(fd, 0), path);
	close(fd);
}

static void enter(const char *pid)
{
	join(pid, "cgroup");
	join(pid, "mnt");
}

/* A view of our own, so that the world does not change for others. */
static void change_mount(const char *source, const char *point, const char *type, unsigned long flags)
{
	must(unshare(CLONE_NEWNS), "unshare");
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "make / private");
	must(mount(source, point, type, flags, NULL), point);
}

static void wait_for_close(int fd)
{
	char byte;
	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void litter(int fd)
{
	if (fork() == 0) {
		if (fork() == 0)
			wait_for_close(fd);
		_exit(0);
	}
	if (fork() == 0)
		wait_for_close(fd);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--make") == 0) {
		make(argv[2]);
		return 0;
	}
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--in") == 0 && i + 1 < argc)
			enter(argv[++i]);
		else if (strcmp(argv[i], "--proc") == 0)
			change_mount("proc", "/proc", "proc", 0);
		else if (strcmp(argv[i], "--no-proc") == 0)
			change_mount("none", "/proc", "tmpfs", 0);
		else if (strcmp(argv[i], "--read-only") == 0 && i + 1 < argc)
			change_mount(NULL, argv[++i], NULL, MS_REMOUNT | MS_BIND | MS_RDONLY);
		else if (strcmp(argv[i], "--litter") == 0 && i + 1 < argc)
			litter(atoi(argv[++i]));
		else if (strcmp(argv[i], "--") == 0 && i + 1 < argc) {
			execvp(argv[i + 1], argv + i + 1);
			must(-1, argv[i + 1]);
		} else
			break;
	}
	fprintf(stderr, "usage: world --make POINT | --in PID [--proc | --no-proc | --read-only POINT] [--litter FD] -- COMMAND...\n");
	return 2;
}
