// SPDX-License-Identifier: Apache-2.0

// Command modelapi answers agents as the API of a model would: each question with the word PONG. The last of these
// words in a conversation changes that: after pingN the answer is PONGN, and so it is after slowN, N seconds later.
// After callN the model calls the tool read_graph first, if the agent has it, and answers CALLEDN. After sleepN and serveN
// it has Gemini's shell start a program that outlives the command, and answers STARTEDN.
//
// It speaks the APIs of Anthropic (/v1/messages), OpenAI (/v1/responses and /v1/chat/completions) and Gemini
// (:generateContent), streaming or not. It listens at the address of its first argument, on loopback, and writes a
// line to the file of the second one when it does. Beside that it has the file asked, with a line for each such word.
// It closes connections that are not used, as those of models do.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const answer = "PONG"

func main() {
	http.HandleFunc("/", serve)
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[2], []byte("up\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	server := &http.Server{IdleTimeout: 3 * time.Second}
	log.Fatal(server.Serve(listener))
}

var (
	orders    = regexp.MustCompile(`(ping|slow|call|sleep|serve)([0-9]+)`)
	tools     = regexp.MustCompile(`"name": ?"([a-zA-Z0-9_.:-]*read_graph)"`)
	toolReply = regexp.MustCompile(`"tool_result"|"function_call_output"|"role": ?"tool"|"functionResponse"`)
)

// obey does what the last order in a question says.
func (s *speaker) obey(body []byte) {
	s.answer = answer
	all := orders.FindAllSubmatchIndex(body, -1)
	if all == nil {
		return
	}
	last := all[len(all)-1]
	number := string(body[last[4]:last[5]])
	note(string(body[last[0]:last[1]]))
	s.answer += number
	switch string(body[last[2]:last[3]]) {
	case "slow":
		seconds, _ := strconv.Atoi(number) // it is a number
		time.Sleep(time.Duration(seconds) * time.Second)
	case "call":
		tool := tools.FindSubmatch(body)
		switch {
		case toolReply.Match(body[last[1]:]):
			s.answer = "CALLED" + number
		case tool != nil:
			s.tool = string(tool[1])
		case bytes.Contains(body, []byte(`"tool_search"`)): // Qwen Code lists no other tools at first
			s.tool = "mcp__notes__read_graph"
		}
	case "sleep":
		s.start("sleep "+number, number, toolReply.Match(body[last[1]:]))
	case "serve":
		s.start("python3 -m http.server "+number, number, toolReply.Match(body[last[1]:]))
	}
}

// start calls Gemini's shell, or answers if it has replied.
func (s *speaker) start(program, number string, hasReplied bool) {
	if hasReplied {
		s.answer = "STARTED" + number
		return
	}
	s.tool = "run_shell_command"
	s.arguments = object{"command": "setsid -f " + program + " </dev/null >/dev/null 2>&1"}
}

func serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var question struct {
		Model  string
		Stream bool
	}
	_ = json.Unmarshal(body, &question)
	s := &speaker{w: w, stream: question.Stream || strings.Contains(r.URL.Path, ":stream")}
	s.obey(body)
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/count_tokens"):
		s.whole(object{"input_tokens": 10})
	case strings.HasSuffix(path, "/messages"):
		s.anthropic(question.Model)
	case strings.HasSuffix(path, "/responses"):
		s.responses(question.Model)
	case strings.HasSuffix(path, "/chat/completions"):
		s.chat(question.Model)
	case strings.Contains(path, "enerateContent"):
		s.gemini()
	case strings.HasSuffix(path, "/models"):
		s.whole(object{"object": "list", "data": []object{{"id": "pong", "object": "model", "type": "model"}}})
	default:
		http.NotFound(w, r)
	}
}

// note adds a line to the file asked.
func note(order string) {
	file, err := os.OpenFile(filepath.Join(filepath.Dir(os.Args[2]), "asked"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintln(file, order); err != nil {
		log.Fatal(err)
	}
}

type object = map[string]any

// speaker writes one answer.
type speaker struct {
	w         http.ResponseWriter
	stream    bool
	answer    string
	tool      string // that it calls, in the place of an answer; or ""
	arguments object // of the call to Gemini; the other tools have none
}

func (s *speaker) whole(v any) {
	s.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(s.w).Encode(v)
}

// event writes a server-sent event; "" is one without a name.
func (s *speaker) event(name string, v any) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	text, _ := json.Marshal(v)
	if name != "" {
		fmt.Fprintf(s.w, "event: %s\n", name)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", text)
}

func (s *speaker) anthropic(model string) {
	content := object{"type": "text", "text": s.answer}
	begun := object{"type": "text", "text": ""}
	delta := object{"type": "text_delta", "text": s.answer}
	reason := "end_turn"
	if s.tool != "" {
		content = object{"type": "tool_use", "id": "toolu_1", "name": s.tool, "input": object{}}
		begun = content
		delta = object{"type": "input_json_delta", "partial_json": "{}"}
		reason = "tool_use"
	}
	message := object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []object{content},
		"stop_reason": reason, "stop_sequence": nil, "usage": object{"input_tokens": 10, "output_tokens": 1},
	}
	if !s.stream {
		s.whole(message)
		return
	}
	message["content"] = []object{}
	message["stop_reason"] = nil
	send := func(kind string, more object) {
		more["type"] = kind
		s.event(kind, more)
	}
	send("message_start", object{"message": message})
	send("content_block_start", object{"index": 0, "content_block": begun})
	send("content_block_delta", object{"index": 0, "delta": delta})
	send("content_block_stop", object{"index": 0})
	send("message_delta", object{
		"delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": 1},
	})
	send("message_stop", object{})
}

func (s *speaker) responses(model string) {
	item := object{
		"type": "message", "id": "item_1", "role": "assistant", "status": "completed",
		"content": []object{{"type": "output_text", "text": s.answer, "annotations": []object{}}},
	}
	if s.tool != "" {
		item = object{
			"type": "function_call", "id": "item_1", "call_id": "call_1", "status": "completed",
			"name": s.tool, "arguments": "{}",
		}
	}
	response := object{
		"id": "resp_1", "object": "response", "model": model, "status": "completed", "output": []object{item},
		"usage": object{"input_tokens": 10, "output_tokens": 1, "total_tokens": 11},
	}
	if !s.stream {
		s.whole(response)
		return
	}
	begun := object{"id": "resp_1", "object": "response", "model": model, "status": "in_progress", "output": []object{}}
	s.event("response.created", object{"type": "response.created", "response": begun})
	s.event("response.output_item.done", object{"type": "response.output_item.done", "output_index": 0, "item": item})
	s.event("response.completed", object{"type": "response.completed", "response": response})
}

func (s *speaker) chat(model string) {
	whole := object{"id": "chat_1", "object": "chat.completion", "created": 1, "model": model}
	usage := object{"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
	message := object{"role": "assistant", "content": s.answer}
	reason := "stop"
	if s.tool != "" {
		message = object{"role": "assistant", "content": nil, "tool_calls": []object{{
			"index": 0, "id": "call_1", "type": "function", "function": object{"name": s.tool, "arguments": "{}"},
		}}}
		reason = "tool_calls"
	}
	if !s.stream {
		whole["choices"] = []object{{"index": 0, "message": message, "finish_reason": reason}}
		whole["usage"] = usage
		s.whole(whole)
		return
	}
	whole["object"] = "chat.completion.chunk"
	whole["choices"] = []object{{"index": 0, "delta": message, "finish_reason": nil}}
	s.event("", whole)
	whole["choices"] = []object{{"index": 0, "delta": object{}, "finish_reason": reason}}
	whole["usage"] = usage
	s.event("", whole)
	fmt.Fprint(s.w, "data: [DONE]\n\n")
}

func (s *speaker) gemini() {
	part := object{"text": s.answer}
	if s.tool != "" {
		arguments := s.arguments
		if arguments == nil {
			arguments = object{}
		}
		part = object{"functionCall": object{"name": s.tool, "args": arguments}}
	}
	content := object{"role": "model", "parts": []object{part}}
	response := object{
		"candidates":    []object{{"index": 0, "content": content, "finishReason": "STOP"}},
		"usageMetadata": object{"promptTokenCount": 10, "candidatesTokenCount": 1, "totalTokenCount": 11},
	}
	if s.stream {
		s.event("", response)
	} else {
		s.whole(response)
	}
}
