define internal double @accord.modulo.f64(double %a, double %p, ptr %file, i32 %line) alwaysinline {
  %rest = call double @FMOD(double %a, double %p)
  %zero = fcmp oeq double %rest, 0.0
  %below = fcmp olt double %rest, 0.0
  %down = fcmp olt double %p, 0.0
  %same = icmp eq i1 %below, %down
  %keep = or i1 %zero, %same
  %sum = fadd double %rest, %p
  %result = select i1 %keep, double %rest, double %sum
  ret double %result
}
declare double @FMOD(double, double)
