// SPDX-License-Identifier: Apache-2.0
/*
 * shell NAME
 *
 * A shell with job control for one job, on its controlling terminal, that tells of what wait(2) does and does nothing
 * by itself. It does what a line says:
 *
 *	run WORD...	starts a command in a process group of its own, in the foreground
 *	fg		continues it in the foreground
 *	bg		continues it in the background
 *	screen		from now on ^Z has us say "NAME restored" and stop by SIGSTOP, as a program that draws does
 *	exit N		ends with that status
 *
 * and then says "NAME stopped SIGNAL", "NAME exited STATUS" or "NAME killed SIGNAL": when the terminal is its own again.
 * Every other line is echoed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *name;
static pid_t job;

static void restore(int sig)
{
	(void)sig;
	printf("%s restored\n", name); /* nothing else prints when this comes */
	raise(SIGSTOP);
	printf("%s drawn\n", name);
}

static void wait_for_job(void)
{
	int status;
	while (waitpid(job, &status, WUNTRACED) < 0)
		if (errno != EINTR)
			exit(70);
	tcsetpgrp(0, getpgrp());
	if (WIFSTOPPED(status))
		printf("%s stopped %d\n", name, WSTOPSIG(status));
	else if (WIFEXITED(status))
		printf("%s exited %d\n", name, WEXITSTATUS(status));
	else
		printf("%s killed %d\n", name, WTERMSIG(status));
}

static void run(char *words)
{
	char *argv[64];
	int n = 0;
	for (char *word = strtok(words, " "); word && n < 63; word = strtok(NULL, " "))
		argv[n++] = word;
	argv[n] = NULL;
	job = fork();
	if (job == 0) {
		setpgid(0, 0);
		tcsetpgrp(0, getpid());
		signal(SIGTTOU, SIG_DFL);
		signal(SIGTTIN, SIG_DFL);
		signal(SIGTSTP, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		execvp(argv[0], argv);
		_exit(127);
	}
	wait_for_job();
}

static void go_on(int foreground)
{
	if (foreground)
		tcsetpgrp(0, job);
	kill(-job, SIGCONT);
	wait_for_job();
}

int main(int argc, char **argv)
{
	char line[4096];
	name = argc > 1 ? argv[1] : "shell";
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGTTIN, SIG_IGN);
	signal(SIGTSTP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	printf("%s ready\n", name);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "run ", 4) == 0)
			run(line + 4);
		else if (strcmp(line, "fg") == 0 || strcmp(line, "bg") == 0)
			go_on(line[0] == 'f');
		else if (strncmp(line, "exit ", 5) == 0)
			exit(atoi(line + 5));
		else if (strcmp(line, "screen") == 0)
			sigaction(SIGTSTP, &(struct sigaction){.sa_handler = restore, .sa_flags = SA_RESTART}, NULL);
		else
			printf("%s echoes %s\n", name, line);
	}
	return 0;
}
