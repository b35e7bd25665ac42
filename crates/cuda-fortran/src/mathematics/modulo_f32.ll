define internal float @accord.modulo.f32(float %a, float %p, ptr %file, i32 %line) alwaysinline {
  %rest = call float @FMODF(float %a, float %p)
  %zero = fcmp oeq float %rest, 0.0
  %below = fcmp olt float %rest, 0.0
  %down = fcmp olt float %p, 0.0
  %same = icmp eq i1 %below, %down
  %keep = or i1 %zero, %same
  %sum = fadd float %rest, %p
  %result = select i1 %keep, float %rest, float %sum
  ret float %result
}
declare float @FMODF(float, float)
