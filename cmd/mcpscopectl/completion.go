//go:build linux

package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/units"
)

const completionUsage = `Usage: mcpscope completion bash|zsh|fish

Prints a completion script. For this shell alone:

  bash:  source <(mcpscope completion bash)
  zsh:   source <(mcpscope completion zsh)
  fish:  mcpscope completion fish | source
`

func completionCommand(args []string, io cli.Stdio) int {
	if len(args) == 1 {
		switch args[0] {
		case "bash":
			fmt.Fprint(io.Out, bashCompletion())
			return cli.ExitOK
		case "zsh":
			fmt.Fprint(io.Out, zshCompletion())
			return cli.ExitOK
		case "fish":
			fmt.Fprint(io.Out, fishCompletion())
			return cli.ExitOK
		}
		if cli.IsHelp(args[0]) {
			fmt.Fprint(io.Out, completionUsage)
			return cli.ExitOK
		}
		fmt.Fprintf(io.Err, "mcpscope: completion: no script for %q\nmcpscope: hint: mcpscope completion bash|zsh|fish\n", args[0])
		return cli.ExitUsage
	}
	fmt.Fprint(io.Err, "mcpscope: completion: which shell?\nmcpscope: hint: mcpscope completion bash|zsh|fish\n")
	return cli.ExitUsage
}

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		if !c.hidden {
			names = append(names, c.name)
		}
	}
	return names
}

func runFlagNames() []string {
	var names []string
	for _, r := range settings.Rows(settings.Run) {
		names = append(names, settings.Dashes(r.Name))
	}
	sort.Strings(names)
	return names
}

// completed is a command as completion knows it, but for run, which has its own.
type completed struct {
	name, flags, words string
	operands           string // "servers", "files" or ""
}

func completions() []completed {
	words := map[string]string{
		"help": strings.Join(commandNames(), " "), "completion": "bash zsh fish", "config": "show check",
		"units": strings.ReplaceAll(unitNames(units.All(units.User, "")), ",", ""),
	}
	operands := map[string]string{"config": "files"}
	for _, name := range []string{"inspect", "stop", "freeze", "thaw", "wait", "logs", "events", "set"} {
		operands[name] = "servers"
	}
	var all []completed
	for _, c := range commands() {
		if !c.hidden && c.name != "run" {
			all = append(all, completed{c.name, strings.Join(flagsIn(c.usage), " "), words[c.name], operands[c.name]})
		}
	}
	return all
}

// flagsIn are those that a usage text has in its first line, or explains, a line for each.
func flagsIn(usage string) []string {
	flags := []string{"--help"}
	first, rest, _ := strings.Cut(usage, "\n")
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "-") {
			explained, _, _ := strings.Cut(line, "  ")
			first += " " + explained
		}
	}
	for _, word := range strings.FieldsFunc(first, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') }) {
		long := strings.HasPrefix(word, "--") && len(word) > 3
		if long || strings.HasPrefix(word, "-") && len(word) == 2 && word != "--" {
			flags = append(flags, word)
		}
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

// harmless is a word that no shell takes for anything else: bash expands what it is to complete
// from, and a server's name may be anything.
func harmless(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@:+-") == "" && s[0] != '-'
}

// namesCommand prints the names and ids of the caller's servers, for completion.
func namesCommand(_ []string, io cli.Stdio) int {
	servers, err := (&filter{}).list()
	defer closeAll(servers)
	for _, s := range servers {
		for _, word := range []string{s.Name, s.ID} {
			if harmless(word) {
				fmt.Fprintln(io.Out, word)
			}
		}
	}
	if err != nil {
		return cli.ExitFailure // nobody reads why
	}
	return cli.ExitOK
}

// choices are the flags with a fixed set of values.
func choices() map[string]string {
	all := map[string]string{}
	for _, r := range settings.Rows(settings.Run) {
		all[settings.Dashes(r.Name)] = strings.Join(r.Values, " ")
	}
	return all
}

// bashCompletion leaves everything from the server's command on to bash's own
// completion of commands.
func bashCompletion() string {
	var cases strings.Builder
	for _, flag := range runFlagNames() {
		if values := choices()[flag]; values != "" {
			fmt.Fprintf(&cases, "    %s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", flag, values)
		}
	}
	var others strings.Builder
	for _, c := range completions() {
		fmt.Fprintf(&others, "    %s) _mcpscope_words %q %q %s; return ;;\n", c.name, c.flags, c.words, c.operands)
	}
	return fmt.Sprintf(`# bash completion for mcpscope
_mcpscope_words() { # flags words [servers|files]
  case $cur in
    -*) COMPREPLY=($(compgen -W "$1" -- "$cur")); return ;;
  esac
  COMPREPLY=($(compgen -W "$2" -- "$cur"))
  case ${3-} in
    servers) COMPREPLY+=($(compgen -W "$(mcpscope names 2>/dev/null)" -- "$cur")) ;;
    files) COMPREPLY+=($(compgen -f -- "$cur")) ;;
  esac
}
_mcpscope() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W %q -- "$cur")); return; fi
  case ${COMP_WORDS[1]} in
%s    run) ;;
    *) return ;;
  esac
  for ((i = 2; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --) i=$((i + 1)); break ;;
      -q|-v|--quiet|--verbose|--require|--replace|--strict-config|--oom-group|--oom-group=*) ;;
      -*) i=$((i + 1)) ;;
      *) break ;;
    esac
  done
  if [ "$i" -lt "$COMP_CWORD" ] || [ "$prev" = -- ]; then
    if declare -F _command_offset >/dev/null; then _command_offset "$i"; else COMPREPLY=($(compgen -cf -- "$cur")); fi
    return
  fi
  case $prev in
%s    --report) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --name) return ;;
  esac
  case $cur in
    -*) COMPREPLY=($(compgen -W %q -- "$cur")) ;;
    *) COMPREPLY=($(compgen -c -- "$cur")) ;;
  esac
}
complete -F _mcpscope mcpscope
`, strings.Join(commandNames(), " "), others.String(), cases.String(), strings.Join(append(runFlagNames(), "--help"), " "))
}

func zshCompletion() string {
	var flags strings.Builder
	for _, flag := range runFlagNames() {
		switch values := choices()[flag]; {
		case values != "":
			fmt.Fprintf(&flags, "        '%s[]:value:(%s)' \\\n", flag, values)
		case flag == "--report":
			fmt.Fprintf(&flags, "        '%s[]:file:_files' \\\n", flag)
		case flag == "--name":
			fmt.Fprintf(&flags, "        '%s[]:name:' \\\n", flag)
		default:
			fmt.Fprintf(&flags, "        '%s[]' \\\n", flag)
		}
	}
	var others strings.Builder
	for _, c := range completions() {
		more := map[string]string{"servers": ` ${(f)"$(mcpscope names 2>/dev/null)"}`, "files": "; _files"}[c.operands]
		fmt.Fprintf(&others, "    %s) compadd -- %s %s%s ;;\n", c.name, c.flags, c.words, more)
	}
	return fmt.Sprintf(`#compdef mcpscope
_mcpscope() {
  local -a commands
  commands=(%s)
  if (( CURRENT == 2 )); then compadd -a commands; return; fi
  case $words[2] in
%s    run)
      shift words; (( CURRENT-- ))
      _arguments -S -A '-*' \
%s        '(-)1:command:_command_names -e' '*::arguments:_normal' ;;
  esac
}
compdef _mcpscope mcpscope
`, strings.Join(commandNames(), " "), others.String(), flags.String())
}

func fishCompletion() string {
	var b strings.Builder
	b.WriteString("# fish completion for mcpscope\ncomplete -c mcpscope -f\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(&b, "complete -c mcpscope -n __fish_use_subcommand -a %s -d %q\n", c.name, c.summary)
		}
	}
	for _, c := range completions() {
		more := map[string]string{"servers": " (mcpscope names 2>/dev/null)", "files": "' -F -a '"}[c.operands]
		fmt.Fprintf(&b, "complete -c mcpscope -n '__fish_seen_subcommand_from %s' -a '%s %s%s'\n", c.name, c.flags, c.words, more)
	}
	for _, flag := range runFlagNames() {
		option := "-l " + strings.TrimLeft(flag, "-")
		if len(flag) == 2 {
			option = "-s " + strings.TrimLeft(flag, "-")
		}
		switch values := choices()[flag]; {
		case values != "":
			option += fmt.Sprintf(" -x -a %q", values)
		case flag == "--report":
			option += " -r -F"
		case flag == "--name":
			option += " -x"
		}
		fmt.Fprintf(&b, "complete -c mcpscope -n '__fish_seen_subcommand_from run' %s\n", option)
	}
	b.WriteString("complete -c mcpscope -n '__fish_seen_subcommand_from run' -a '(__fish_complete_subcommand --fcs-skip=2)'\n")
	return b.String()
}
