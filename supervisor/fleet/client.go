package fleet

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	callWithin = 2 * time.Second // any call but a renewal. It is repeated rather than waited for
	maxAnswer  = 64 << 20        // bytes
	maxMissed  = 2               // deadlines in a row, after which a client with a password is replaced
	// A client with a password that is refused is replaced this often: the password may be another one now. A login takes etcd 60 ms.
	refusedAgain = 10 * time.Second
)

// connection has the client that everything in the package uses. A client is made when the first call needs it: with a
// password that takes an answer of etcd's. Every call has a deadline.
//
// A client with a password is replaced after two deadlines in a row. In etcd 3.4 a token that has expired is never
// renewed: every call fails, and keeps the servers busy. A call each minute keeps the token alive (see keeper).
type connection struct {
	config *Config
	tls    *certificates
	log    *zap.Logger

	making  chan struct{} // has room for the one who makes or replaces the client
	mu      sync.Mutex
	client  *clientv3.Client
	missed  int
	closed  bool
	life    context.Context // of clients
	end     context.CancelFunc
	refused time.Time // when a client was replaced for that
}

func newConnection(c *Config, tls *certificates) *connection {
	s := &connection{config: c, tls: tls, log: quiet(c.Log), making: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// do makes a call to etcd within a time. classOf says what its error means.
func (s *connection) do(ctx context.Context, within time.Duration, call func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	client, err := s.get(ctx)
	if err == nil {
		err = call(ctx, client)
	}
	s.count(client, err)
	return err
}

// get returns the client.
func (s *connection) get(ctx context.Context) (*clientv3.Client, error) {
	if client := s.now(); client != nil {
		return client, nil
	}
	select {
	case s.making <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.making }()
	if client := s.now(); client != nil {
		return client, nil
	}
	client, err := s.make()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		client.Close()
		return nil, context.Canceled
	}
	s.client, s.missed = client, 0
	return client, nil
}

func (s *connection) now() *clientv3.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

func (s *connection) make() (*clientv3.Client, error) {
	c := clientv3.Config{
		Endpoints: s.config.Endpoints, DialTimeout: callWithin, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
		MaxCallRecvMsgSize: maxAnswer, Context: s.life, Logger: s.log, Username: s.config.User,
	}
	if s.config.User != "" {
		password, err := os.ReadFile(s.config.PasswordFile)
		if err != nil {
			return nil, err
		}
		c.Password = strings.TrimRight(string(password), "\r\n")
	}
	if s.tls != nil {
		config, err := s.tls.config()
		if err != nil {
			return nil, err
		}
		c.TLS = config
	}
	return clientv3.New(c)
}

// count drops a client that does not get well by itself.
func (s *connection) count(client *clientv3.Client, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client == nil || client != s.client {
		return
	}
	if err != nil && isLogin(err) && s.config.User != "" && time.Since(s.refused) >= refusedAgain {
		s.refused = time.Now()
		s.dropLocked() // the next one reads the password anew
		return
	}
	if err == nil || classOf(err) != notReached || errors.Is(err, context.Canceled) {
		s.missed = 0
		return
	}
	if s.missed++; s.config.User != "" && s.missed >= maxMissed {
		s.dropLocked()
	}
}

// drop has the next call make a new client, which reads all files anew.
func (s *connection) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked()
}

func (s *connection) dropLocked() {
	if s.client != nil {
		client := s.client
		s.client, s.missed = nil, 0
		_ = client.Close() // those who use it get an error
	}
}

func (s *connection) close() {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.dropLocked()
}

// quiet returns a log for the client, which says at length what healthd's events say: all of it at debug level.
func quiet(log *zap.Logger) *zap.Logger {
	if log == nil {
		return zap.NewNop()
	}
	return log.Named("etcd").WithOptions(zap.WithCaller(false), zap.AddStacktrace(zapcore.InvalidLevel), zap.WrapCore(func(c zapcore.Core) zapcore.Core { return debugCore{c} }))
}

type debugCore struct{ zapcore.Core }

func (c debugCore) Enabled(zapcore.Level) bool { return c.Core.Enabled(zapcore.DebugLevel) }

func (c debugCore) With(fields []zapcore.Field) zapcore.Core { return debugCore{c.Core.With(fields)} }

func (c debugCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return ce
	}
	return ce.AddCore(e, c)
}

func (c debugCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Level = zapcore.DebugLevel
	return c.Core.Write(e, fields)
}
