<?php // GET /n/5 has a program ask the backend about number 5.
$n = (int) basename(parse_url($_SERVER["REQUEST_URI"], PHP_URL_PATH));
$request = "GET /n/$n HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n";
exec("bash -c " . escapeshellarg("exec 3<>/dev/tcp/127.0.0.1/" . getenv("BACKEND") . "; printf '$request' >&3; read -r <&3"), $_, $status);
http_response_code($status === 0 ? 200 : 502);
