// SPDX-License-Identifier: Apache-2.0
/*
 * probe [--register SOCK] [--members N] [--ends] [--continued]
 *
 * A server whose behaviour the test dictates by lines on its stdin, and that
 * tells the test, by "signal PID NUMBER" on SOCK, of every signal that one of
 * its processes gets. It survives all signals but SIGKILL unless started with
 * --ends; then asking signals end it. Of SIGCONT, which comes with every asking signal, it
 * tells with --continued alone. See zoo/zoo.c for SOCK. On a terminal it tells its new size
 * as well, by "size ROWS COLUMNS", and each member says "role PID child|session".
 *
 *	exit N		ends with that status
 *	die N		ends by that signal
 *	deaf MS		reads nothing more for that long
 *	late MS		when stdin ends, answers "answer" after that long, and exits
 *	stay		when stdin ends, lives on
 *	close FD	closes that descriptor, and says "closed" on SOCK
 *	ponder MS	waits for that long before each echo from now on
 *	burn MS		uses CPU for that long, a little at a time, and then says "idle" there
 *
 * Every other line is echoed.
 */
#include "../../escape/zoo/zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

const char *mode_name = "probe";

static bool ends;	  /* asking signals end us */
static bool continued;	  /* we tell of SIGCONT */
static long ponder_ms;	  /* before each echo */
static bool stays;	  /* the end of stdin does not */
static long late_ms = -1; /* the answer after it */

static void tell(int sig)
{
	struct winsize size;
	say("signal %d %d", getpid(), sig);
	if (sig == SIGWINCH && ioctl(0, TIOCGWINSZ, &size) == 0)
		say("size %d %d", size.ws_row, size.ws_col);
	if (ends && (sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT))
		_exit(0);
}

static void tell_signals(void)
{
	static const int all[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
	struct sigaction action = {.sa_handler = tell, .sa_flags = SA_RESTART};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		sigaction(all[i], &action, NULL);
	if (continued)
		sigaction(SIGCONT, &action, NULL);
}

static void wait_ms(long ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};
	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

static long now_ms(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* 5 ms in every 50. */
static void burn(long ms)
{
	for (long end = now_ms(CLOCK_MONOTONIC) + ms; now_ms(CLOCK_MONOTONIC) < end; wait_ms(45))
		for (long used = now_ms(CLOCK_PROCESS_CPUTIME_ID) + 5; now_ms(CLOCK_PROCESS_CPUTIME_ID) < used;)
			;
	say("idle");
}

static void die_by(int sig)
{
	signal(sig, SIG_DFL);
	raise(sig);
}

static void close_fd(int fd)
{
	close(fd);
	say("closed");
	if (fd == 0)
		park();
}

static void obey(const char *line)
{
	long n;
	if (sscanf(line, "exit %ld", &n) == 1)
		_exit(n);
	else if (sscanf(line, "die %ld", &n) == 1)
		die_by(n);
	else if (sscanf(line, "deaf %ld", &n) == 1)
		wait_ms(n);
	else if (sscanf(line, "late %ld", &n) == 1)
		late_ms = n;
	else if (sscanf(line, "burn %ld", &n) == 1)
		burn(n);
	else if (sscanf(line, "close %ld", &n) == 1)
		close_fd(n);
	else if (strcmp(line, "stay\n") == 0)
		stays = true;
	else if (sscanf(line, "ponder %ld", &n) == 1)
		ponder_ms = n;
	else {
		wait_ms(ponder_ms);
		fputs(line, stdout);
	}
}

/* One byte at a time: what we have not asked for stays in the pipe, unread. */
static bool read_line(char *line, size_t size)
{
	size_t len = 0;
	while (len < size - 1) {
		ssize_t n = read(0, line + len, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		if (line[len++] == '\n')
			break;
	}
	line[len] = 0;
	return true;
}

/* A server of MCP has answered initialize by now: one that has written less than that is not frozen on a socket. */
static void greet(void)
{
	static const char answer[128];
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, answer, sizeof answer) == sizeof answer)
		close(fd);
}

int main(int argc, char **argv)
{
	long members = 0;
	char line[4096];
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--register") == 0 && i + 1 < argc)
			register_at(argv[++i]);
		else if (strcmp(argv[i], "--members") == 0 && i + 1 < argc)
			members = atol(argv[++i]);
		else if (strcmp(argv[i], "--ends") == 0)
			ends = true;
		else if (strcmp(argv[i], "--continued") == 0)
			continued = true;
		else
			return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	start_life();
	tell_signals();
	born(NULL);
	for (long i = 0; i < members; i++)
		if (fork_member(i % 2 ? "session" : "child") == 0) {
			if (i % 2)
				setsid();
			say("role %d %s", getpid(), i % 2 ? "session" : "child");
			up();
			park();
		}
	await_up(members);
	greet();
	say("ready");
	while (read_line(line, sizeof line))
		obey(line);
	if (stays)
		park();
	if (late_ms >= 0) {
		wait_ms(late_ms);
		puts("answer");
	}
	return 0;
}
