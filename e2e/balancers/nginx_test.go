package balancers

import (
	"slices"
	"strings"
	"time"
)

const nginxConfig = `
daemon off;
pid DIR/nginx.pid;
worker_processes 2;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path DIR/body;
    proxy_temp_path DIR/proxy;
    fastcgi_temp_path DIR/fastcgi;
    uwsgi_temp_path DIR/uwsgi;
    scgi_temp_path DIR/scgi;
    HOW
}
`

var (
	nginxArgv   = []string{"PROGRAM", "-e", "stderr", "-p", "DIR", "-c", "DIR/nginx.conf"}
	nginxReload = append(slices.Clone(nginxArgv), "-s", "reload")
)

var nginxWays = []way{
	{
		name: "nginx file", program: "nginx", argv: nginxArgv, reload: nginxReload,
		files: map[string]string{"nginx.conf": strings.Replace(nginxConfig, "HOW", `
    include DIR/upstreams.conf;
    server {
        listen FRONT;
        location / { proxy_pass http://NAME--web; }
    }`, 1)},
		healthd:   publishedFile("nginx", "upstreams.conf", nginxReload...),
		published: "DIR/upstreams.conf", within: time.Second,
	},
	// nginx tells an absent name from a silent server only by its answer: without healthd each request fails, once
	// valid is over.
	{
		name: "nginx DNS, valid 1s", program: "nginx", argv: nginxArgv, reload: nginxReload,
		files: map[string]string{"nginx.conf": strings.Replace(nginxConfig, "HOW", `
    resolver DNS valid=1s ipv6=off;
    resolver_timeout 2s;
    server {
        listen FRONT;
        set $web web.NAME.healthd;
        location / { proxy_pass http://$web:8080; }
    }`, 1)},
		healthd: listenDNS, within: 3 * time.Second, loses: true,
	},
}
