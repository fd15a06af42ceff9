// SPDX-License-Identifier: Apache-2.0
/* Ways to stay alive in another control group than the one we were born in. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH = 4096 };

/* The mount's place and the hierarchy's directory that it shows. */
static void find_mount(char point[PATH], char root[PATH])
{
	char line[3 * PATH];
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	if (!mounts)
		die("open mountinfo");
	while (fgets(line, sizeof line, mounts))
		if (strstr(line, " - cgroup2 ") && sscanf(line, "%*d %*d %*s %4095s %4095s", root, point) == 2) {
			fclose(mounts);
			return;
		}
	errno = ENOENT;
	die("find the cgroup2 mount");
}

const char *cgroup_mount(void)
{
	static char point[PATH];
	char root[PATH];
	find_mount(point, root);
	return point;
}

const char *own_group(void)
{
	static char dir[3 * PATH];
	char point[PATH], root[PATH], line[PATH] = "", path[PATH] = "";
	FILE *own = fopen("/proc/self/cgroup", "re");
	if (!own)
		die("open /proc/self/cgroup");
	while (fgets(line, sizeof line, own))
		if (sscanf(line, "0::%4095s", path) == 1)
			break;
	fclose(own);
	find_mount(point, root);
	size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
	snprintf(dir, sizeof dir, "%s%s", point, strcmp(path + skip, "/") == 0 ? "" : path + skip);
	return dir;
}

static int open_file(const char *dir, const char *name, int flags)
{
	char path[3 * PATH];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	int fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		die(path);
	return fd;
}

void write_file(const char *dir, const char *name, const char *text)
{
	int fd = open_file(dir, name, O_WRONLY);
	if (write(fd, text, strlen(text)) < 0)
		die(name);
	close(fd);
}

void make_group(const char *dir)
{
	if (mkdir(dir, 0755) != 0 && errno != EEXIST)
		die(dir);
}

void move_to(const char *dir)
{
	write_file(dir, "cgroup.procs", "0");
}

const char *below(const char *dir, const char *name)
{
	static char path[3 * PATH];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	make_group(path);
	return path;
}

static void go_deeper(void)
{
	move_to(below(own_group(), "zoo"));
	member("deepest", stay_in_new_session);
	stay();
}

static void nested(void)
{
	member("nested", go_deeper);
	await_up(2);
}

static const char *threaded_group;
static int thread_moved[2];

static void make_threaded_group(void)
{
	threaded_group = below(own_group(), "zoo");
	write_file(threaded_group, "cgroup.type", "threaded");
}

/* A thread can't go where its process's domain is another one, which it is as soon as a gateway has moved us
 * to a group of our own: then there is a new place to make. */
static void *move_thread(void *arg)
{
	char tid[16];
	(void)arg;
	snprintf(tid, sizeof tid, "%ld", syscall(SYS_gettid));
	for (;;) {
		int fd = open_file(threaded_group, "cgroup.threads", O_WRONLY);
		if (write(fd, tid, strlen(tid)) >= 0)
			break;
		if (errno != EOPNOTSUPP || strncmp(threaded_group, own_group(), strlen(own_group())) == 0)
			die("cgroup.threads");
		close(fd);
		make_threaded_group();
	}
	if (write(thread_moved[1], "", 1) != 1)
		die("say that the thread has moved");
	up();
	park();
}

static void move_process(void)
{
	move_to(threaded_group);
	stay_in_new_session();
}

/* One thread of this process, and another process, in a threaded group. */
static void go_threaded(void)
{
	char moved;
	pthread_t thread;
	make_threaded_group();
	ignore_signals();
	if (pipe2(thread_moved, O_CLOEXEC) != 0 || pthread_create(&thread, NULL, move_thread, NULL) != 0)
		die("pthread_create");
	if (read(thread_moved[0], &moved, 1) != 1)
		die("wait for the thread");
	member("threaded", move_process);
	park();
}

static void threaded(void)
{
	member("threads", go_threaded);
	await_up(2);
}

static void wait_until_frozen(const char *dir)
{
	char text[256];
	struct pollfd events = {.fd = open_file(dir, "cgroup.events", O_RDONLY), .events = POLLPRI};
	for (;;) {
		ssize_t n = pread(events.fd, text, sizeof text - 1, 0);
		text[n > 0 ? n : 0] = 0;
		if (strstr(text, "frozen 1"))
			break;
		poll(&events, 1, 20);
	}
	close(events.fd);
}

static const char *frozen_group; /* below the one that we are in now: a gateway may be about to move us to another */

static void freeze_myself(void)
{
	ignore_signals();
	move_to(frozen_group);
	up();
	write_file(frozen_group, "cgroup.freeze", "1");
	park();
}

static void frozen(void)
{
	frozen_group = below(own_group(), "zoo");
	member("frozen", freeze_myself);
	await_up(1);
	wait_until_frozen(frozen_group);
}

static const char *destination;

static void move_away(void)
{
	move_to(destination);
	member("moved", stay_in_new_session);
	stay();
}

static void migrate(const char *dir)
{
	if (!dir) {
		errno = EINVAL;
		die("needs --sibling and --scratch");
	}
	destination = dir;
	member("moved", move_away);
	await_up(2);
}

/* The parent of a group, never above the mount. */
const char *parent_of(const char *group)
{
	static char dir[3 * PATH];
	if (strcmp(group, cgroup_mount()) == 0)
		return group;
	memmove(dir, group, strlen(group) + 1);
	return dirname(dir);
}

/* In a scope we are in the payload below it. */
const char *server_group(void)
{
	const char *own = own_group();
	return strstr(own, ".scope/payload") ? parent_of(own) : own;
}

static void to_sibling(void) { migrate(sibling_group); }
static void to_parent(void) { migrate(parent_of(own_group())); }
static void to_grandparent(void) { migrate(parent_of(parent_of(own_group()))); }
static void to_fresh(void) { migrate(scratch_group ? below(scratch_group, "fresh") : NULL); }
static void to_root(void) { migrate(cgroup_mount()); }

static void main_to_sibling(void)
{
	ignore_signals();
	to_sibling();
	move_to(sibling_group);
}

static void deeper(void)
{
	member("third", stay_in_new_session);
	stay();
}

static void dig(void)
{
	move_to(destination);
	member("second", deeper);
	stay();
}

/* Where guards are. */
static void to_guards(void)
{
	destination = below(parent_of(server_group()), "guards");
	member("first", dig);
	await_up(3);
}

/* Whoever freezes our group then freezes itself. */
static void pull_parent(void)
{
	char pid[16];
	snprintf(pid, sizeof pid, "%d", getppid());
	ignore_signals();
	member("session", stay_in_new_session);
	await_up(1);
	int fd = open_file(own_group(), "cgroup.procs", O_WRONLY);
	/* The kernel keeps the launcher in a login session: the group above both is root's. */
	if (write(fd, pid, strlen(pid)) < 0 && errno != EACCES)
		die("cgroup.procs");
	close(fd);
}

static void pull_guard(void)
{
	char pid[16];
	snprintf(pid, sizeof pid, "%d", find_guard());
	ignore_signals();
	member("session", stay_in_new_session);
	await_up(1);
	write_file(own_group(), "cgroup.procs", pid);
}

const struct mode cgroup_modes[] = {
	{"nested", NULL, nested, NULL, ENDS, "members in a group below ours"},
	{"threaded", NULL, threaded, NULL, ENDS, "members and a thread in a threaded group below ours"},
	{"frozen", NULL, frozen, NULL, ENDS, "a member in a group that it has frozen itself"},
	{"move-sibling", NULL, to_sibling, NULL, ENDS, "members that moved to a sibling group"},
	{"move-parent", NULL, to_parent, NULL, ENDS, "members that moved to the parent group"},
	{"move-grandparent", NULL, to_grandparent, NULL, ENDS, "members that moved two groups up"},
	{"move-fresh", NULL, to_fresh, NULL, ENDS, "members that moved to a group they made"},
	{"move-root", NULL, to_root, NULL, ENDS, "members that moved to the root group"},
	{"move-guards", NULL, to_guards, NULL, ENDS, "members, three deep, that moved to where guards are"},
	{"pull-guard", NULL, pull_guard, NULL, STAYS, "takes its guard into its group"},
	{"pull-parent", NULL, pull_parent, NULL, STAYS, "takes its own parent into its group"},
	{"move-main", NULL, main_to_sibling, NULL, STAYS, "the main process moved too, to a sibling group"},
	{0},
};
