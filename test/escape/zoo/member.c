// SPDX-License-Identifier: Apache-2.0
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static time_t end_of_life;
static sem_t *members_up;
atomic_uint *counter;

static time_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

void start_life(void)
{
	end_of_life = now() + LIFE_SECONDS;
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		die("mmap");
	members_up = (sem_t *)page;
	counter = (atomic_uint *)(page + 1024);
	sem_init(members_up, 1, 0);
}

static void expire(int sig)
{
	(void)sig;
	_exit(124);
}

/*
 * The dead-man's switch, at the same moment for every member, however late it
 * was born: no ring of respawners outlives it. The timer sends SIGKILL, which
 * also ends who is stopped, traced or frozen; the alarm is for the first process
 * of a pid namespace, which ignores a SIGKILL of its own.
 */
void limit_life(void)
{
	struct sigevent kill_me = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
	time_t left = end_of_life - now();
	struct itimerspec then = {.it_value = {.tv_sec = left + 1}};
	timer_t timer;
	if (left <= 0)
		_exit(124);
	signal(SIGALRM, expire);
	alarm(left);
	if (timer_create(CLOCK_MONOTONIC, &kill_me, &timer) == 0)
		timer_settime(timer, 0, &then, NULL);
}

/*
 * Forks a member and returns in the parent when it has registered, or died: so
 * there is no moment at which one member is gone and its successor unknown.
 */
pid_t fork_member(const char *role)
{
	int registered[2];
	char byte;
	if (pipe2(registered, O_CLOEXEC) != 0)
		die("pipe");
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0)
		born(role);
	close(registered[1]);
	while (pid > 0 && read(registered[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(registered[0]);
	return pid;
}

pid_t member(const char *role, void (*run)(void))
{
	pid_t pid = fork_member(role);
	if (pid > 0)
		return pid;
	run();
	_exit(0);
}

/* A member says that it is where its mode wants it. */
void up(void)
{
	sem_post(members_up);
}

void await_up(unsigned members)
{
	while (members > 0)
		if (sem_wait(members_up) == 0)
			members--;
		else if (errno != EINTR)
			die("sem_wait");
}

void ignore_signals(void)
{
	static const int all[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		signal(all[i], SIG_IGN);
}

void park(void)
{
	for (;;)
		pause();
}

/* The usual member: deaf to signals and to the end of stdin. */
void stay(void)
{
	ignore_signals();
	up();
	park();
}

void stay_in_new_session(void)
{
	setsid();
	stay();
}

static bool write_all(const char *text, ssize_t len)
{
	while (len > 0) {
		ssize_t n = write(1, text, len);
		if (n < 0)
			return false;
		text += n;
		len -= n;
	}
	return true;
}

/* Echoes stdin, so that a test can ask whether we live and are not frozen. */
void serve(enum at_eof at_eof)
{
	char buffer[4096];
	ssize_t n;
	do
		n = read(0, buffer, sizeof buffer);
	while ((n > 0 && write_all(buffer, n)) || (n < 0 && errno == EINTR));
	if (at_eof == ENDS)
		_exit(0);
	park();
}
