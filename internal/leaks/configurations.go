// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Server is a configured server, and the directories that its configuration names. They are "" or absolute,
// without symbolic links, as the kernel has that of a process.
type Server struct {
	gw.Configured
	Project string // whose configuration it is; "" for a server of all projects
	Dir     string // the working directory that is set for it
}

// Configurations are the servers of one user.
type Configurations struct {
	Home     string
	Servers  []Server
	Unread   []string // sentences
	Searched []string // directories
}

// ConfigurationsCommand is the hidden command `configurations UID GID`, by which root reads those of another
// user.
const ConfigurationsCommand = "configurations"

// PrintAs gives up the rights of root for those of a user, and prints what that user has configured. Its
// parent does not do that before the execve: a fork waits for it, and the user could stop it there.
func PrintAs(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("which user is not said")
	}
	uid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("leave the groups of root: %w", err)
	}
	if err := syscall.Setgid(gid); err != nil {
		return fmt.Errorf("become group %d: %w", gid, err)
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("become user %d: %w", uid, err)
	}
	return json.NewEncoder(out).Encode(ReadOwn())
}

// ReadOwn reads what the calling user has configured, in any project: a person who looks for leaks is seldom
// in the one that has left them.
func ReadOwn() Configurations { return readOwn(clientconfig.NewSearch()) }

func readOwn(search *clientconfig.Search) Configurations {
	known, err := search.InAllProjects()
	read := configured(known, err)
	for _, err := range known.Lists {
		read.Unread = append(read.Unread, cli.ErrorLine(err))
	}
	read.Searched = known.Searched
	return read
}

// configured takes the servers from a search of configurations.
func configured(found clientconfig.Found, err error) Configurations {
	known := Configurations{Home: resolved(settings.Home(os.Getenv))}
	if err != nil {
		known.Unread = append(known.Unread, "find configurations: "+cli.ErrorLine(err))
		return known
	}
	for _, err := range found.Backups {
		known.Unread = append(known.Unread, cli.ErrorLine(err))
	}
	for _, c := range found.Files {
		if c.Err != nil {
			known.Unread = append(known.Unread, fmt.Sprintf("read %s: %s", c.Where(), cli.ErrorLine(c.Err)))
			continue
		}
		for _, s := range c.Servers {
			if len(s.Own()) > 0 {
				known.Servers = append(known.Servers, serverOf(c, s))
			}
		}
	}
	return known
}

func serverOf(file *clientconfig.File, s wrapping.Server) Server {
	home := settings.Home(os.Getenv)
	server := Server{
		Configured: gw.Configured{Name: s.Label(), File: file.Where(), Listens: s.Listens},
		Project:    resolved(cmp.Or(s.Dirs.Project, file.Project)),
	}
	for _, word := range s.Own() {
		server.Argv = append(server.Argv, inHome(word, home))
	}
	if dir := inHome(s.Dirs.Working, home); dir != "" {
		server.Dir = directory(dir, server.Project)
	}
	return server
}

// inHome replaces what clients write for the home at the beginning of a word.
func inHome(word, home string) string {
	for _, begin := range []string{"~/", "$HOME/", "${HOME}/", "${env:HOME}/", "{env:HOME}/"} {
		if rest, ok := strings.CutPrefix(word, begin); ok && home != "" {
			return home + "/" + rest
		}
	}
	return word
}

// directory is the working directory that is set for a server. One with a variable, or relative to an unknown
// directory, is that of no process.
func directory(dir, project string) string {
	if !filepath.IsAbs(dir) && project != "" {
		dir = filepath.Join(project, dir)
	}
	return resolved(dir)
}

// resolved leaves a directory that does not exist as it is.
func resolved(dir string) string {
	if dir == "" {
		return ""
	}
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return filepath.Clean(dir)
	}
	return target
}

// What root reads of other users is bounded: they can make neither it nor its timer wait.
const (
	othersWithin = time.Second // for all of them together
	killedWithin = 100 * time.Millisecond
	othersMost   = 64      // users
	outputMost   = 4 << 20 // bytes of each
)

// readConfigurations reads those of the users who have the processes, by uid: each with the rights of that
// user.
func readConfigurations(of []*Leak, search *clientconfig.Search) map[int]Configurations {
	known := map[int]Configurations{}
	others := map[int]bool{}
	for _, l := range of {
		if l.UID != os.Getuid() {
			others[l.UID] = true
		} else if _, isRead := known[l.UID]; !isRead {
			known[l.UID] = readOwn(search)
		}
	}
	reading, cancel := context.WithTimeout(context.Background(), othersWithin)
	defer cancel()
	waiting, cancel := context.WithTimeout(context.Background(), othersWithin+killedWithin)
	defer cancel()
	type result struct {
		uid  int
		read Configurations
	}
	uids := slices.Sorted(maps.Keys(others))
	started := uids[:min(len(uids), othersMost)]
	results := make(chan result, len(started)) // so that those who come too late do not wait
	for _, uid := range started {
		go func() { results <- result{uid, readAs(reading, uid)} }()
	}
	for range started {
		select {
		case r := <-results:
			known[r.uid] = r.read
		case <-waiting.Done(): // a process that cannot be killed holds up nobody
		}
	}
	for _, uid := range uids {
		if _, isRead := known[uid]; !isRead {
			known[uid] = unreadOf(uid, fmt.Errorf("not within %v", othersWithin))
		}
	}
	return known
}

func unreadOf(uid int, err error) Configurations {
	text := fmt.Sprintf("read the configurations of user %d: %s", uid, cli.ErrorLine(err))
	return Configurations{Unread: []string{text}}
}

// readAs has a process of another user read what is that user's. The user can forge what it prints, which is
// compared with processes of that user alone.
func readAs(ctx context.Context, uid int) Configurations {
	account, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return unreadOf(uid, err)
	}
	own, err := programs.Own()
	if err == nil && filepath.Base(own) != programs.Tool {
		err = errors.New("this program is not " + programs.Tool)
	}
	if err != nil {
		return unreadOf(uid, err)
	}
	var out limited
	cmd := exec.CommandContext(ctx, "/proc/self/exe", ConfigurationsCommand, account.Uid, account.Gid)
	cmd.Dir = "/"
	cmd.Stdout = &out
	cmd.WaitDelay = othersWithin // the user may hold its stdout open
	cmd.Env = []string{
		"HOME=" + account.HomeDir, "USER=" + account.Username, "PATH=/usr/local/bin:/usr/bin:/bin",
	}
	err = cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("not within %v", othersWithin)
	}
	if err != nil {
		return unreadOf(uid, err)
	}
	var known Configurations
	if err := json.Unmarshal(out.Bytes(), &known); err != nil {
		return unreadOf(uid, err)
	}
	const notesMost = 8
	known.Unread = known.Unread[:min(len(known.Unread), notesMost)]
	return known
}

// limited keeps the beginning of what is written, and refuses the rest.
type limited struct{ bytes.Buffer }

// Write fails above the limit.
func (l *limited) Write(text []byte) (int, error) {
	if l.Len()+len(text) > outputMost {
		return 0, errors.New("too much output")
	}
	return l.Buffer.Write(text)
}
