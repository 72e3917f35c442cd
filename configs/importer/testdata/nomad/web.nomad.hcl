variable "port" { default = 8080 }
variable "release" {}
locals {
  prefix = "shop"
  name   = "${local.prefix}-front"
}

job "web" {
  type = "service"
  update { max_parallel = 2 }

  group "front" {
    count          = 3
    shutdown_delay = "5s"
    network {
      port "http" { to = var.port }
      port "admin" {}
      port "ssh" { static = 22 }
    }
    restart {
      attempts = 5
      interval = "10m"
      delay    = "20s"
      mode     = "fail"
    }
    service {
      name = local.name
      port = "http"
      check {
        name     = "alive"
        type     = "http"
        path     = "/health"
        interval = "10s"
        timeout  = "2s"
        header {
          Authorization = ["Basic Zm9v"]
        }
        success_before_passing   = 2
        failures_before_critical = 3
        on_update                = "ignore"
        check_restart {
          limit = 3
          grace = "90s"
        }
      }
      check {
        type     = "tcp"
        port     = "admin"
        interval = "10s"
        timeout  = "2s"
      }
    }
    task "server" {
      driver         = "docker"
      kill_timeout   = "30s"
      kill_signal    = "SIGQUIT"
      shutdown_delay = "2s"
      config {
        image = "shop/web:${var.release}"
        ports = ["http"]
      }
    }
    task "migrate" {
      driver = "docker"
      lifecycle { hook = "prestart" }
    }
    task "agent" {
      driver = "raw_exec"
    }
  }

  group "rpc" {
    network {
      port "grpc" { to = 9000 }
    }
    task "rpc" {
      driver = "podman"
      restart {
        attempts = 3
        mode     = "delay"
      }
      service {
        name = "${JOB}-rpc"
        port = "grpc"
        check {
          type            = "grpc"
          grpc_service    = "live"
          grpc_use_tls    = true
          tls_skip_verify = true
          interval        = "5s"
          timeout         = "1s"
        }
        check {
          type     = "script"
          command  = "/bin/check"
          args     = ["--name", "$$x $(y)"]
          interval = "30s"
          timeout  = "5s"
          check_restart {
            limit           = 2
            ignore_warnings = true
          }
        }
        check {
          type     = "http"
          path     = "${env["HEALTH_PATH"]}"
          interval = "30s"
          timeout  = "5s"
          check_restart { limit = 1 }
        }
      }
      service {
        name = "second"
      }
      dynamic "service" {
        for_each = ["a"]
        content {
        }
      }
    }
  }
}
