// SPDX-License-Identifier: Apache-2.0
/*
 * client [--socketpair] [--session | --group] [--stdin FD --stdout FD] -- COMMAND...
 *
 * A scripted MCP client: starts a server with a pipe (or socketpair, as Node.js
 * does) at its stdin and stdout, and then does what the lines on its own stdin
 * say. With --stdin the server's stdin is a descriptor that we were given: then
 * whoever has the other end is what holds it open.
 *
 *	held		must come first: until then the server is not reaped, so that its
 *			pid can be opened
 *	write TEXT	a line for the server
 *	close		closes the server's stdin
 *	close-stdout	closes our end of the server's stdout
 *	signal N	to the server's pid
 *	killpg N	to the server's process group
 *	exit		ends at once, as a client does that crashes without a signal
 *
 * Prints "pids OWN SERVER" first, then "wrote TEXT" when that is in the pipe, "out LINE" for
 * each line of the server, "stdout-eof", and "exit STATUS" or "signal N" when the
 * server has ended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 64 * 1024 };

static struct {
	bool socketpair, session, group;
	int given_stdin, given_stdout;
	char **command;
} options = {.given_stdin = -1, .given_stdout = -1};

static struct {
	pid_t pid;
	int pidfd, in, out;
} server;

/* Lines that arrive in pieces. */
struct input {
	char text[LINE];
	size_t len;
};

static void fatal(const char *what)
{
	printf("error %s: %s\n", what, strerror(errno));
	exit(70);
}

static void parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0 && i + 1 < argc) {
			options.command = argv + i + 1;
			return;
		}
		if (strcmp(argv[i], "--socketpair") == 0)
			options.socketpair = true;
		else if (strcmp(argv[i], "--session") == 0)
			options.session = true;
		else if (strcmp(argv[i], "--group") == 0)
			options.group = true;
		else if (strcmp(argv[i], "--stdin") == 0 && i + 1 < argc)
			options.given_stdin = atoi(argv[++i]);
		else if (strcmp(argv[i], "--stdout") == 0 && i + 1 < argc)
			options.given_stdout = atoi(argv[++i]);
		else
			break;
	}
	fprintf(stderr, "usage: client [--socketpair] [--session | --group] [--stdin FD --stdout FD] -- COMMAND...\n");
	exit(2);
}

/* ends[0] is the reader's. Close-on-exec, so that the server gets no end of
 * ours: who holds its own stdin open can't see it close. */
static void channel(int ends[2])
{
	int err = options.socketpair ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
				     : pipe2(ends, O_CLOEXEC);
	if (err != 0)
		fatal("channel");
}

static void close_given(void)
{
	if (options.given_stdin > 2)
		close(options.given_stdin);
	if (options.given_stdout > 2)
		close(options.given_stdout);
}

static void become_server(int in, int out)
{
	if (options.session)
		setsid();
	if (options.group)
		setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0)
		_exit(70);
	close_given();
	execvp(options.command[0], options.command);
	fprintf(stderr, "client: %s: %s\n", options.command[0], strerror(errno));
	_exit(127);
}

static void start(void)
{
	int in[2], out[2];
	channel(in);
	channel(out);
	int their_in = options.given_stdin < 0 ? in[0] : options.given_stdin;
	int their_out = options.given_stdout < 0 ? out[1] : options.given_stdout;
	server.pid = fork();
	if (server.pid < 0)
		fatal("fork");
	if (server.pid == 0)
		become_server(their_in, their_out);
	if (options.group)
		setpgid(server.pid, server.pid); /* both sides: whoever comes first */
	close(in[0]);
	close(out[1]);
	close_given();
	server.in = in[1];
	server.out = out[0];
	server.pidfd = syscall(SYS_pidfd_open, server.pid, 0);
	if (server.pidfd < 0)
		fatal("pidfd_open");
	printf("pids %d %d\n", getpid(), server.pid);
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Once it is reaped its pid may be another process's: no signal then. */
static void signal_server(bool group, int sig)
{
	if (server.pidfd >= 0)
		kill(group ? -server.pid : server.pid, sig);
}

static bool held;

static void obey(char *line)
{
	int sig;
	if (strncmp(line, "write ", 6) == 0) {
		if (dprintf(server.in, "%s\n", line + 6) < 0)
			printf("error write: %s\n", strerror(errno));
		else
			printf("wrote %s\n", line + 6);
	} else if (strcmp(line, "close") == 0)
		close_end(&server.in);
	else if (strcmp(line, "close-stdout") == 0)
		close_end(&server.out);
	else if (sscanf(line, "signal %d", &sig) == 1)
		signal_server(false, sig);
	else if (sscanf(line, "killpg %d", &sig) == 1)
		signal_server(true, sig);
	else if (strcmp(line, "held") == 0)
		held = true;
	else if (strcmp(line, "exit") == 0)
		_exit(0);
	else
		printf("error unknown command %s\n", line);
}

static void print(char *line)
{
	printf("out %s\n", line);
}

/* Reads once and hands the complete lines on; false at the end of the input. */
static bool take_lines(int fd, struct input *in, void (*use)(char *line))
{
	char *newline;
	ssize_t n = read(fd, in->text + in->len, sizeof in->text - in->len - 1);
	if (n <= 0)
		return n < 0 && errno == EINTR;
	in->len += n;
	in->text[in->len] = 0;
	while ((newline = strchr(in->text, '\n')) || in->len == sizeof in->text - 1) {
		size_t used = newline ? (size_t)(newline - in->text) + 1 : in->len;
		if (newline)
			*newline = 0;
		use(in->text);
		memmove(in->text, in->text + used, in->len - used + 1);
		in->len -= used;
	}
	return true;
}

static void reap(void)
{
	int status;
	if (waitpid(server.pid, &status, 0) != server.pid)
		fatal("waitpid");
	close_end(&server.pidfd);
	if (WIFSIGNALED(status))
		printf("signal %d\n", WTERMSIG(status));
	else
		printf("exit %d\n", WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	static struct input commands, output;
	parse(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	start();
	for (;;) {
		/* poll skips negative descriptors, so an end that is closed needs no case */
		struct pollfd fds[] = {
			{.fd = 0, .events = POLLIN},
			{.fd = server.out, .events = POLLIN},
			{.fd = held ? server.pidfd : -1, .events = POLLIN},
		};
		if (poll(fds, 3, -1) < 0)
			continue;
		if (fds[1].revents && !take_lines(server.out, &output, print)) {
			close_end(&server.out);
			printf("stdout-eof\n");
		}
		if (fds[2].revents)
			reap();
		if (fds[0].revents && !take_lines(0, &commands, obey))
			return 0;
	}
}
