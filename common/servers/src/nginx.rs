//! nginx for tests, with one server on one port.

use std::fs;
use std::net::TcpStream;

use crate::port::free_port;
use crate::server::{Server, ServerKind, require};

/// nginx.
pub struct NginxKind;

impl ServerKind for NginxKind {
    const NAME: &'static str = "nginx";

    fn is_ready(port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    }
}

impl Server<NginxKind> {
    /// Starts nginx as one process, which a signal ends, with these contents of `http` and `server`. `FOLDER` stands for the folder of the server in both, which has the
    /// files.
    ///
    /// # Panics
    /// Panics if nginx is not installed.
    #[must_use]
    pub fn start(http: &str, server: &str, files: &[(&str, &str)]) -> Self {
        let port = free_port();
        let launched = Self::launch(port, |folder| {
            require("nginx", "-v", "run scripts/servers, or apt-get install nginx-light")?;
            for (name, text) in files {
                fs::write(folder.join(name), text)?;
            }
            let path = folder.display().to_string();
            let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map(|kind| format!("    {kind}_temp_path {path}/{kind};\n"))
                .concat();
            let config = format!(
                "master_process off;\nerror_log stderr;\npid {path}/nginx.pid;\nevents {{}}\nhttp {{\n    access_log off;\n{temporary}{http}\n    server {{\n        listen 127.0.0.1:{port};\n{server}\n    }}\n}}\n"
            );
            let file = folder.join("nginx.conf");
            fs::write(&file, config.replace("FOLDER", &path))?;
            let command = ["nginx", "-e", "stderr", "-g", "daemon off;", "-c", &file.display().to_string()];
            Ok(command.map(ToOwned::to_owned).to_vec())
        });
        launched.unwrap_or_else(|error| panic!("{error}"))
    }
}
