// SPDX-License-Identifier: Apache-2.0
/* Ways to stay alive that need nothing but processes, threads and descriptors. */
#include "zoo.h"
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void new_session(void)
{
	member("session", stay_in_new_session);
	await_up(1);
}

static void fork_again(void)
{
	setsid();
	member("grandchild", stay);
}

static void double_fork(void)
{
	pid_t middle = member("middle", fork_again);
	waitpid(middle, NULL, 0);
	await_up(1);
}

/* The pause keeps a chain from eating a whole CPU: a thousand hops a second are
 * enough to outrun any walk over pids. */
static void hop(void)
{
	const struct timespec pause = {.tv_nsec = 300 * 1000};
	setsid();
	ignore_signals();
	up();
	for (;;) {
		nanosleep(&pause, NULL);
		if (fork_member("hop") > 0)
			_exit(0);
	}
}

static void hopping(void)
{
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 3; i++)
		member("hop", hop);
	await_up(3);
}

/* As fast as the machine can, and telling nobody: only an empty group shows that no
 * one is left. Each hop has a life of its own, so the limit is a time of day. */
static void hop_at_once(void)
{
	const time_t limit = time(NULL) + LIFE_SECONDS;
	setsid();
	ignore_signals();
	up();
	while (time(NULL) < limit)
		if (fork() > 0)
			_exit(0);
	_exit(0);
}

static void hop_storm(void)
{
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 4; i++)
		member("hop-storm", hop_at_once);
	await_up(4);
}

static void *idle(void *arg)
{
	(void)arg;
	park();
}

static void start_threads(int n, void *(*run)(void *))
{
	pthread_attr_t small;
	pthread_t thread;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 32 * 1024);
	while (n-- > 0)
		if (pthread_create(&thread, &small, run, NULL) != 0)
			die("pthread_create");
}

static void threads(void)
{
	ignore_signals();
	start_threads(mode_number, idle);
}

static void *live_on(void *arg)
{
	(void)arg;
	stay();
}

/* The process stays a member, as a zombie with a living thread: cgroup.kill
 * passes it by. */
static void lose_first_thread(void)
{
	ignore_signals();
	start_threads(1, live_on);
	syscall(SYS_exit, 0);
}

static void dead_leader(void)
{
	member("no first thread", lose_first_thread);
	await_up(1);
}

static void *serve_on(void *arg)
{
	(void)arg;
	serve(STAYS);
}

static void main_loses_first_thread(void)
{
	ignore_signals();
	start_threads(1, serve_on);
	syscall(SYS_exit, 0);
}

static void children(void)
{
	ignore_signals();
	for (int i = 0; i < mode_number; i++)
		member("child", stay);
	await_up(mode_number);
}

static void leave_zombies(void)
{
	setsid();
	ignore_signals();
	for (int i = 0; i < mode_number; i++)
		member("zombie", up);
	up();
	park();
}

static void zombies(void)
{
	member("parent", leave_zombies);
	await_up(mode_number + 1);
}

static int borrow_memory(void *arg)
{
	(void)arg;
	born("borrower");
	ignore_signals();
	up();
	park();
}

/* Waits in the kernel for its child and sees no signal but SIGKILL. */
static void wait_for_vfork(void)
{
	const size_t size = 64 * 1024;
	char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED)
		die("mmap");
	if (clone(borrow_memory, stack + size, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL) < 0)
		die("clone");
}

static void vforking(void)
{
	member("vfork parent", wait_for_vfork);
	await_up(1);
}

static void wipe_environment(void)
{
	for (char **var = environ; *var; var++)
		memset(*var, 0, strlen(*var));
	clearenv();
}

static void no_environment(void)
{
	wipe_environment();
	member("session", stay_in_new_session);
	await_up(1);
}

static void close_all(void)
{
	setsid();
	syscall(SYS_close_range, 0, ~0U, 0);
	stay();
}

static void no_descriptors(void)
{
	member("closed", close_all);
	await_up(1);
}

static void hold_stdout(void)
{
	setsid();
	close(0);
	close(2);
	stay();
}

static void stdout_held(void)
{
	member("holder", hold_stdout);
	await_up(1);
}

/* Root's server gives up its rights, as gosu or su have it: nobody without CAP_SYS_RESOURCE may ask for its limits then. */
static void give_up_rights(void)
{
	const uid_t other = 4002;
	setsid();
	if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setresgid(other, other, other) != 0 || setresuid(other, other, other) != 0))
		die("become another user");
	stay();
}

static void other_user(void)
{
	member("other", give_up_rights);
	await_up(1);
}

const struct mode process_modes[] = {
	{"plain", NULL, NULL, NULL, ENDS, "one process that ends with its stdin"},
	{"setsid", NULL, new_session, NULL, ENDS, "a child in a session of its own"},
	{"double-fork", NULL, double_fork, NULL, ENDS, "a grandchild whose parent has exited"},
	{"hop", NULL, hopping, NULL, ENDS, "fork, the parent exits, for ever"},
	{"hop-storm", NULL, hop_storm, NULL, ENDS, "the same without a pause, four at a time"},
	{"threads-500", NULL, threads, NULL, STAYS, "as many threads"},
	{"dead-leader", NULL, dead_leader, NULL, ENDS, "a child whose first thread has exited"},
	{"dead-leader-main", NULL, NULL, main_loses_first_thread, STAYS, "the main process's first thread has exited"},
	{"children-2000", NULL, children, NULL, STAYS, "as many children"},
	{"zombies-500", NULL, zombies, NULL, ENDS, "a child with as many zombies"},
	{"vfork", NULL, vforking, NULL, ENDS, "a child that waits for its vfork"},
	{"no-env", NULL, no_environment, NULL, ENDS, "environment emptied and overwritten"},
	{"no-fds", NULL, no_descriptors, NULL, ENDS, "a child that has closed all descriptors"},
	{"other-user", NULL, other_user, NULL, ENDS, "a child that has become another user, if it was root's"},
	{"hold-stdout", NULL, stdout_held, NULL, ENDS, "a child that keeps the client's stdout open"},
	{0},
};
