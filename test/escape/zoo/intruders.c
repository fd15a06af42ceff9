// SPDX-License-Identifier: Apache-2.0
/* Ways to stay alive that forge what others believe. Each needs a test of its own. */
#include "zoo.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define ATTR "user.mcpscope."

static int hold(pid_t pid)
{
	int fd = syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		die("pidfd_open");
	return fd;
}

static void signal_held(int pidfd, int sig)
{
	syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0);
}

static bool is_stopped(const char *task)
{
	char path[420], stat[512] = "";
	snprintf(path, sizeof path, "%s/stat", task);
	FILE *f = fopen(path, "re");
	if (!f)
		return true; /* it has ended */
	size_t n = fread(stat, 1, sizeof stat - 1, f);
	stat[n] = 0;
	fclose(f);
	const char *end = strrchr(stat, ')');
	return end && end[1] && (end[2] == 'T' || end[2] == 'Z');
}

static bool all_stopped(pid_t pid)
{
	char dir[64], task[400];
	bool all = true;
	snprintf(dir, sizeof dir, "/proc/%d/task", pid);
	DIR *tasks = opendir(dir);
	for (struct dirent *e; tasks && (e = readdir(tasks));) {
		snprintf(task, sizeof task, "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.' && !is_stopped(task))
			all = false;
	}
	if (tasks)
		closedir(tasks);
	return all;
}

/* The children of a guard are helpers. One gets its name some time after its exec. False while one lives. */
static bool kill_helpers(pid_t guard)
{
	char path[64];
	pid_t child;
	bool all = true;
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", guard, guard);
	FILE *children = fopen(path, "re");
	while (children && fscanf(children, "%d", &child) == 1) {
		int pidfd = syscall(SYS_pidfd_open, child, 0);
		signal_held(pidfd, SIGKILL);
		close(pidfd);
		snprintf(path, sizeof path, "/proc/%d", child);
		all = all && is_stopped(path);
	}
	if (children)
		fclose(children);
	return all;
}

/* All are stopped, so that none acts on another's death. A helper continues its guard, and a guard its launcher. */
static void kill_guards(void)
{
	prctl(PR_SET_PDEATHSIG, 0L); /* to outlive its launcher */
	const struct timespec pause = {.tv_nsec = 200 * 1000};
	pid_t guard = find_guard();
	int held = hold(guard);
	bool none = false;
	while (!none || !all_stopped(getppid()) || !all_stopped(guard)) {
		signal_held(parent_pidfd, SIGSTOP);
		signal_held(held, SIGSTOP);
		nanosleep(&pause, NULL);
		none = kill_helpers(guard);
	}
	signal_held(held, SIGKILL);
	signal_held(parent_pidfd, SIGKILL);
	close(held);
}

static void attribute(const char *dir, const char *name, const char *value)
{
	if (setxattr(dir, name, value, strlen(value), 0) != 0)
		die(name);
}

/* The lock is free as soon as the kernel has closed what the guards had. */
static void take_lock(void)
{
	int fd = open(own_group(), O_RDONLY | O_DIRECTORY);
	if (fd < 0 || flock(fd, LOCK_EX) != 0)
		die("lock the group");
}

/* A line on stdin: by then the test knows the guards. */
static void await_word(void)
{
	char c = 0;
	while (c != '\n' && read(0, &c, 1) == 1)
		;
}

static void usurp(void)
{
	ignore_signals();
	await_word();
	kill_guards();
	take_lock();
}

/* The facts are as protocol.Facts. */
static void forge(const char *facts, size_t size)
{
	if (setxattr(own_group(), ATTR "armed", facts, size, 0) != 0)
		die("overwrite the facts");
}

/* Whatever we can't see may live: the namespace is none of anybody's. */
static void foreign_launcher(void)
{
	usurp();
	forge("\2\0\0\0\0\0\0\0\0\0\0\0\0\2\2\2", 17); /* 1 in namespace 1, started at 1 */
	say("usurped");
}

static char guards[4096], guard_name[16];

static void sit(void)
{
	move_to(guards);
	prctl(PR_SET_NAME, guard_name);
	stay();
}

static void false_guard(void)
{
	usurp();
	const char *top = server_group();
	snprintf(guard_name, sizeof guard_name, "guard-%.8s", strrchr(top, '-') + 1);
	snprintf(guards, sizeof guards, "%s/guards", parent_of(top));
	member("in the leaf", sit);
	await_up(1);
	say("usurped");
}

/* As if somebody swept, for ever. */
static void lock_directory(void)
{
	int fd = open(parent_of(server_group()), O_RDONLY | O_DIRECTORY);
	ignore_signals();
	await_word();
	kill_guards();
	if (fd < 0 || flock(fd, LOCK_EX) != 0)
		die("lock the directory");
	say("usurped");
	park();
}

/* Without the attribute a directory is nobody's, as it seems. */
static void disarm(void)
{
	usurp();
	if (removexattr(own_group(), ATTR "armed") != 0)
		die("remove the attribute");
	say("usurped");
}

/* Every attribute that the directory can have. */
static void fill_attributes(void)
{
	char name[64];
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, ATTR "more-%d", i);
		if (setxattr(own_group(), name, "x", 1, 0) != 0)
			return;
	}
}

/* Has its guard begin a stop, and claims that it is to wait for ever. */
static void ask_for_stop(void)
{
	ignore_signals();
	await_word();
	forge("\2\0\1\1\0\0\0\0\0\0\0\0\0\0\0\0", 17); /* both graces are infinite */
	attribute(own_group(), ATTR "stop", "infinity");
	fill_attributes();
	if (target)
		signal_guard(SIGWINCH);
	say("asked");
}

/* A child whose parent is in another pid namespace falls to that one's first process. */
static void below_it(void)
{
	atomic_fetch_add(counter, 1);
	stay_in_new_session();
}

static void inside(void)
{
	member("below it", below_it);
	_exit(0);
}

static void enter_namespace(void)
{
	char path[64];
	move_to(sibling_group);
	snprintf(path, sizeof path, "/proc/%s/ns/pid_for_children", target);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWPID) != 0)
		die(path);
	member("inside", inside);
	_exit(0);
}

static void foreign_namespace(void)
{
	member("on the way", enter_namespace);
	while (atomic_load(counter) == 0)
		sched_yield();
}

/* The youngest of many, which a kill one by one meets last: time enough to act on the first one's death. */
static void watch_main(void)
{
	struct pollfd first = {.fd = hold(getppid()), .events = POLLIN};
	ignore_signals();
	up();
	while (poll(&first, 1, -1) != 1)
		;
	say("witnessed");
	park();
}

static void witness(void)
{
	enum { OTHERS = 200 };
	ignore_signals();
	for (int i = 0; i < OTHERS; i++)
		member("between", stay);
	member("witness", watch_main);
	await_up(OTHERS + 1);
}

/* As many processes as the limit allows. */
static void use_up(void)
{
	unsigned others = 0;
	pid_t pid;
	ignore_signals();
	await_word();
	while ((pid = fork()) > 0)
		others++;
	if (pid == 0) {
		born("one of many");
		stay();
	}
	if (errno != EAGAIN)
		die("fork");
	await_up(others);
	say("used up");
}

/* Ends by any signal. */
static void live(void)
{
	up();
	park();
}

/* A program for a person, whose parent goes on: it has the name of the daemon, and a plus. */
static void be_detached(void)
{
	char name[16];
	snprintf(name, sizeof name, "%s+", target);
	setsid();
	close(0);
	close(1);
	prctl(PR_SET_NAME, name);
	live();
}

/* A server of the server: its parent has the other end of its stdin. */
static int to_worker[2];

static void be_worker(void)
{
	char byte;
	dup2(to_worker[0], 0);
	close(to_worker[1]);
	setsid();
	prctl(PR_SET_NAME, target);
	up();
	while (read(0, &byte, 1) > 0)
		;
}

/* A daemon whose name is the target, with a child, and one that is called otherwise. */
static void be_daemon(void)
{
	prctl(PR_SET_NAME, target);
	member("window", live);
	live();
}

static void leave(void)
{
	setsid();
	close(0); /* who has both pipes of the client is the server */
	close(1);
	member("daemon", be_daemon);
}

static void leave_other(void)
{
	setsid();
	member("other", live);
}

static void make_daemons(void)
{
	waitpid(member("middle", leave), NULL, 0);
	waitpid(member("other-middle", leave_other), NULL, 0);
	member("detached", be_detached);
	if (pipe2(to_worker, O_CLOEXEC) != 0)
		die("pipe");
	member("worker", be_worker);
	await_up(5);
}

/* A daemon at a socket, the target, that others may use. */
static void listen_there(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(at.sun_path, sizeof at.sun_path, "%s", target);
	if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 4) != 0)
		die("listen");
	up();
	for (;;) {
		int user = accept(fd, NULL, NULL);
		if (user >= 0 && write(user, "at your service\n", 16) < 0)
			close(user);
	}
}

static void leave_listener(void)
{
	setsid();
	close(0);
	close(1);
	member("listener", listen_there);
}

static void make_listener(void)
{
	waitpid(member("middle", leave_listener), NULL, 0);
	await_up(1);
}

const struct mode intruder_modes[] = {
	{"listener", NULL, make_listener, NULL, ENDS, "a daemon at the socket that is the target"},
	{"daemons", NULL, make_daemons, NULL, ENDS, "two daemons and two children in sessions of their own, three of which are called like the target"},
	{"foreign-launcher", NULL, NULL, foreign_launcher, STAYS, "kills both guards, locks the group, names a launcher nobody can see"},
	{"false-guard", NULL, NULL, false_guard, STAYS, "the same, sits where guards are, and is called as one"},
	{"lock-directory", NULL, NULL, lock_directory, STAYS, "kills both guards, and locks the directory of the groups"},
	{"disarm", NULL, NULL, disarm, STAYS, "kills both guards, and disarms the group"},
	{"long-grace", NULL, NULL, ask_for_stop, STAYS, "forges a grace without an end, and with a target begins a stop"},
	{"foreign-namespace", NULL, foreign_namespace, NULL, ENDS, "a member below another pid namespace's first process"},
	{"witness", NULL, witness, NULL, STAYS, "a member that waits for the main process's death, behind many others"},
	{"use-up", NULL, NULL, use_up, STAYS, "at a line, as many processes as its user may have"},
	{0},
};
