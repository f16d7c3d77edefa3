package budgetstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Refusal is why a Redis that answers decides nothing. In an error of this package it is found by AsRefusal.
type Refusal struct {
	// Kind is the first word of Redis' own error.
	Kind string
	// Means says what is the matter, Do what an operator does about it.
	Means, Do string
}

func (r Refusal) Error() string {
	return "redis decides nothing (" + r.Kind + "): " + r.Means + "; " + r.Do
}

// Is lets a refusal pass for ErrUnavailable.
func (r Refusal) Is(target error) bool { return target == ErrUnavailable }

// ErrReplica: Redis is a read-only replica, so what it holds is whatever its master had.
var ErrReplica = Refusal{"READONLY", "it is a read-only replica", "lead the address to the master, or promote this one, which a recovery follows"}

// refusals are those that stay until somebody does something, or Redis is done with it.
var refusals = []Refusal{
	ErrReplica,
	{"OOM", "its memory is full", "give it more (maxmemory)"},
	{"MISCONF", "it cannot write its files", "make room on its disk; its log says more"},
	{"NOREPLICAS", "too few of its replicas are in sync", "bring them back, or lower min-replicas-to-write"},
	{"LOADING", "it is reading its files", "wait"},
	{"BUSY", "a script has been running for too long", "end it with SCRIPT KILL; it is none of Weir's"},
	{"MASTERDOWN", "it is a replica that has lost its master", "lead the address to the master"},
	{"CLUSTERDOWN", "a part of the cluster is down", "bring its nodes back"},
	{"NOAUTH", "it wants a password", "put one into the address"},
	{"WRONGPASS", "it does not take the user or the password", "correct them in the address"},
	{"NOPERM", "the user may not run what is needed", "let it, by ACL SETUSER"},
}

// AsRefusal finds the refusal in an error.
func AsRefusal(err error) (Refusal, bool) {
	if r, ok := errors.AsType[Refusal](err); ok {
		return r, true
	}
	said, ok := errors.AsType[redis.Error](err)
	if !ok {
		return Refusal{}, false
	}
	kind, _, _ := strings.Cut(said.Error(), " ")
	for _, r := range refusals {
		if r.Kind == kind {
			return r, true
		}
	}
	return Refusal{}, false
}

// attempt is a script that may write and does not: Redis judges it as it judges the others, and nothing is changed.
const attempt = "#!lua\nreturn 1"

// refuses asks a master whether it would let a script write. An answer that is no refusal says nothing about that.
func refuses(ctx context.Context, c redis.Cmdable) error {
	if r, refused := AsRefusal(c.Eval(ctx, attempt, nil).Err()); refused {
		return r
	}
	return nil
}
