-- Limits of Tollgate for HAProxy, part 2 of 2: the question before each request. Copy it to /etc/haproxy/.

-- Headers that belong to the body or to the connection of the client, and not to the question.
local NOT_ASKED = { "connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade" }

-- Returns lists of values, as core.httpclient takes them: those of a request begin at 0.
local function headers_of(request)
    local headers = {}
    for name, values in pairs(request:req_get_headers()) do
        headers[name] = { table.unpack(values, 0) }
    end
    for _, name in ipairs(NOT_ASKED) do
        headers[name] = nil
    end
    return headers
end

-- Asks the agent about a request. A denial of the agent is the answer to the client.
core.register_action("tollgate", { "http-req" }, function(txn)
    local headers = headers_of(txn.http)
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-uri"] = { txn.f:pathq() }
    headers["x-forwarded-for"] = headers["x-forwarded-for"] or {}
    table.insert(headers["x-forwarded-for"], txn.f:src())
    local answer = core.httpclient():get{ url = "http://tollgate/check", dst = "abns@tollgate", headers = headers }
    -- A call passes while the agent is stopped (503) or hangs (504).
    if not answer or answer.status >= 500 then
        return
    end
    if answer.status < 300 then
        txn:set_priv(answer.headers)
        return
    end
    local denial = txn:reply{ status = answer.status, body = answer.body }
    for name, values in pairs(answer.headers) do
        for _, value in pairs(values) do
            if name ~= "content-length" then
                denial:add_header(name, value)
            end
        end
    end
    txn:done(denial)
end)

-- Adds the headers of the limit to the answer of a request that passed.
core.register_action("tollgate_headers", { "http-res" }, function(txn)
    for name, values in pairs(txn:get_priv() or {}) do
        if name:find("ratelimit", 1, true) then
            for _, value in pairs(values) do
                txn.http:res_add_header(name, value)
            end
        end
    end
end)
